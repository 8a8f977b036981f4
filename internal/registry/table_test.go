// Package registry says where each recipe is entered. Its test compares this table with what is
// there, in both directions.
package registry

// Recipe is an exported recipe. A field with several names has ", " between them. One that begins
// with "-" says why there is none.
type Recipe struct {
	Name      string // of the type with the constructor New<Name>, of a function, or of a method of Client
	File      string // with what its documentation promises, and beside it a file of tests; without .go
	Guide     string // below docs, linked from README's table and from docs/README.md
	Trace     string // the value of a zkrecipes.Recipe
	Use       string // in recipetest.Recipes
	Costs     string // tables of internal/costs
	Faults    string // drivers of recipetest
	FaultTest string // its own, for what no driver does
	Sim       string // worlds of internal/sim: Test<world>Simulation
	Soak      string // the key in internal/soak that its workers use
	Look      string // what Client.Recipes finds while it is in use
	Zkr       string // the file that reads it for zkr who
}

// Recipes are all of them, in the order of README.
var Recipes = []Recipe{
	{Name: "Mutex", File: "mutex", Guide: "locks.md", Trace: "mutex", Use: "mutex, kept mutex",
		Costs: "Mutex, Mutex in a long line, Mutex with options", Faults: "mutex, kept mutex",
		Sim: "Mutex, KeptLock, LockDelay", Soak: "lockKey, keptKey", Look: "mutex", Zkr: view},
	{Name: "RWLock", File: "rwlock", Guide: "locks.md#rwlock", Trace: "rwlock", Use: "rwlock",
		Costs: "RWLock", Faults: "writer, writer behind a reader, reader, downgraded writer",
		Sim: "RWLock", Soak: "rwKey", Look: "rwlock", Zkr: view},
	{Name: "LockAll", File: "lockall", Guide: "locks.md#several-locks", Trace: mutexes, Use: mutexes,
		Costs: "-in Mutex with options", Faults: "LockAll", Sim: mutexes, Soak: "allKey", Look: mutexes, Zkr: mutexes},
	{Name: "Semaphore", File: "semaphore", Guide: "semaphore.md", Trace: "semaphore", Use: "semaphore",
		Costs: "Semaphore", Faults: "one slot of one, two slots of three", FaultTest: "TestResizeSurvivesAMishapAtAnyRequest",
		Sim: "Semaphore", Soak: "semaphoreKey", Look: "semaphore", Zkr: view},
	{Name: "Election", File: "election", Guide: "election.md", Trace: "election", Use: "election",
		Costs: "Election", Faults: "campaign", Sim: "Election", Soak: "electionKey", Look: "election", Zkr: view},
	{Name: "Queue", File: "queue", Guide: "queue.md", Trace: "queue", Use: "queue", Costs: "Queue",
		Faults: "take and ack, take and nack, put, put without a bound, put of a batch, ack with an operation, ack and put, bury and take, redrive, remove, burial of a taken item, burial of a free item, purge",
		Sim:    "Queue", Soak: "queueKey, boundedKey, failingKey", Look: "queue", Zkr: view},
	{Name: "Gate", File: "gate", Guide: "barriers.md#gate", Trace: "gate", Use: "gate",
		Costs: "Gate", Faults: "gate", Sim: "Gate", Soak: "gateKey", Look: "gate", Zkr: "cmd/zkr/internal/cli/who.go"},
	{Name: "Barrier", File: "barrier", Guide: "barriers.md#barrier", Trace: "barrier", Use: "barrier",
		Costs: "Barrier", Faults: "barrier", Sim: "Barrier", Soak: "barrierKey",
		Look: "-once it is open it leaves no znode", Zkr: view},
	{Name: "DoubleBarrier", File: "barrier", Guide: "barriers.md#doublebarrier", Trace: "doublebarrier", Use: "double barrier",
		Costs: "Double barrier", Faults: "double barrier", Sim: "DoubleBarrier", Soak: "doubleKey", Look: "doublebarrier", Zkr: view},
	{Name: "Group", File: "group", Guide: "members.md", Trace: "group", Use: "group",
		Costs: "Group", Faults: "group", FaultTest: "TestAMemberSurvivesAMishapAtAnyRequest", Sim: "Group", Soak: "groupKey", Look: "group", Zkr: view},
	{Name: "Counter", File: "counter", Guide: "counters.md", Trace: "counter", Use: "counter",
		Costs: "Counter", Faults: own, FaultTest: "TestAddsSurviveAMishapAtAnyRequest", Sim: "Counter", Soak: "counterKey", Look: "counter", Zkr: view},
	{Name: "Shards", File: "shards", Guide: "shards.md", Trace: "shards", Use: "-it is served, not taken",
		Costs: "Shards", Faults: "shards", Sim: "Shards", Soak: "shardsKey", Look: "shards", Zkr: view},
	{Name: "Watch", File: "observe", Guide: "reads.md", Trace: read, Use: read,
		Costs: "Reads and watches", Faults: own, FaultTest: "TestWatchesSurviveAMishapAtAnyRequest", Sim: "Watch", Soak: "counterKey", Look: read, Zkr: read},
	{Name: "WatchTree", File: "tree", Guide: "reads.md", Trace: read, Use: read,
		Costs: "-in Reads and watches", Faults: own, FaultTest: "TestWatchTreeSurvivesAMishapAtAnyRequest",
		Sim: "-TestWatchTreeFollowsRandomChangesThroughFaults", Soak: "-its events are those of Watch", Look: read, Zkr: read},
}

const (
	own     = "-FaultTest"
	mutexes = "-it is made of mutexes"
	read    = "-it only reads"
	view    = "cmd/zkr/internal/view/view.go"
)
