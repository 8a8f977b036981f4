package main

// allowedTimes are the functions of tests, with their files, whose bounds in time may be short,
// and why: the bound is the claim, or the test shows that something does not happen until then. A
// slow machine fails none of them.
var allowedTimes = map[string]string{
	// What a reader would copy. The server is in the process.
	"example_test.go Example":                         "as in README",
	"example_test.go ExampleDial":                     "as in README",
	"example_test.go ExampleClient_Shutdown":          "within the grace of an orchestrator",
	"example_locks_test.go ExampleMutex_Lock_timeout": "the wait ends with its context",

	// A wait that must end without what it waits for.
	"cmd/zkr/input_test.go TestEachCommandPrintsJSON":                                        "no server",
	"cmd/zkr/input_test.go TestWrongInputIsRefusedByName":                                    "nothing waits",
	"cmd/zkr/lock_test.go TestLockThatCannotRunTheCommand":                                   "no server",
	"cmd/zkr/lock_test.go TestLockThatIsNotAcquired":                                         "the lock is held, and 10 s are enough to see it",
	"internal/zkconn/sasl_real_test.go TestRealServersThatLetInWhomTheyRefuseAreNotBelieved": "Dial must fail: nothing has to happen in time",
	"cmd/zkr/lock_test.go TestLockWaitsAsLongAsItWasTold":                                    "the lock is held, and 10 s are enough to see it",
	"cmd/zkr/lock_test.go TestTheLockIsReleasedWhenTheWholeGroupHasEnded":                    "the lock is held, and 10 s are enough to see it",
	"cmd/zkr/terminal_linux_test.go TestEachServerIsNamedWhenTheTimeIsOver":                  "no server",
	"cmd/zkr/tls_test.go TestTLSWithAClientsCertificate":                                     "a server or client that is refused, and 20 s are enough to see it",
	"docs/code/fromcurator/fromcurator_test.go TestOnlyTheLimitOfTheWaitIsReportedAsBusy":    "the lock is held",
	"internal/zkserver/zkserver_test.go TestACallEndsWithItsContext":                         "a server that is paused does not stop",

	// In simulated time, in functions that the bubble calls from a table.
	"internal/queue/handlertimeout_test.go TestOverrunOfAnItemThatIsOver": "EachInBubble",

	// Nothing happens meanwhile.
	"bench/tree_test.go compareTrees":                                        "a second without changes, after which the copies are awaited",
	"cmd/zkr/internal/serve/hub_test.go TestAChangeIsReadOnceForAllBrowsers": "without a change nothing is read",

	// How long something lasts. What follows has a minute.
	"bench/bench_test.go TestAScenarioEndsWithItsContext":             "the context ends in the middle; if it ends sooner, the scenario does, too",
	"cmd/zkr/main_test.go write":                                      "how often a program writes",
	"cmd/zkr/pagetest/page_test.go TestADeadlockOfTwoProcessesIsSeen": "only for the picture, which shows the time",
	"cmd/zkr/pagetest/world_test.go scene":                            "how long a lock is held",
	"internal/zkserver/command.go status":                             "a server that does not answer is asked again",
	"zkkrb5/kdc_test.go kinitAgain":                                   "how often kinit runs",
	"zkkrb5/zkkrb5_test.go TestALockIsHeldForLongerThanATicketLives":  "how long tickets live, and how often connections break",
	"zkkrb5/zkkrb5_test.go TestAnExpiredCredentialsCacheIsNamed":      "how long tickets live",
	"zkkrb5/zkkrb5_test.go TestTicketsAreRenewedWhileNothingConnects": "how long tickets live",

	// The end is at that time, and the machine has seconds for it.
	"cmd/zkr/internal/guard/guard_linux_test.go TestACommandWhoseTimeIsOverIsNotStarted":      "its time is over at the start",
	"internal/line/lock_ensemble_test.go endsInTime":                                          "tolerance is 8 s",
	"internal/line/session_process_test.go TestRealLockOfAKilledProcessIsFreeAfterItsTimeout": "tolerance is 8 s",
}
