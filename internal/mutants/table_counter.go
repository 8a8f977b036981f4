package main

// counterMutants are about the counter and about what finds recipes.
var counterMutants = []mutant{
	{
		name: "counter-no-receipt",
		what: "An add whose reply was lost is taken for one that was refused.",
		edits: []edit{{
			in: "writer.writeIn",
			old: `
				o := w.logIn(s).Transact(ctx, "counter", errs.ErrUncertain, slices.Concat([]any{set}, keep, leave.Ops))`,
			new: `
				o := s.Retry(nil, []any{set}, keep, leave.Ops).Wait(ctx)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/counter -run ^TestManyClientsAddExactly",
	},
	{
		name:  "counter-any-version",
		what:  "A write overwrites what others have written meanwhile.",
		edits: []edit{{in: "writer.writeIn", old: `Version: w.base.version}`, new: `Version: -1}`}},
		test:  "env ZK_HARNESS=zktest go test ./internal/counter -run ^TestACounterSharesItsPath",
	},
	{
		name: "counter-refuses-by-old-value",
		what: "CompareAndSet is refused by a value that is not up to date.",
		edits: []edit{{
			in:  "writer.choose",
			old: `if changes || len(batch) == 0 {`,
			new: `if !changes {
				w.settle(batch, nil)
				return nil, 0, nil
			}
			if changes || len(batch) == 0 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/counter -run ^TestACounterSharesItsPath",
	},
	{
		name:  "counter-refusal-no-sync",
		what:  "What refuses a call is read from a server that may lag.",
		edits: []edit{{in: "writer.choose", old: `err = s.Sync(ctx, w.path.Abs()); err == nil`, new: `err == nil`}},
		test:  "env ZK_HARNESS=zktest go test ./internal/counter -run TestACallIsRefused",
	},
	{
		name:  "counter-get-no-sync",
		what:  "Get reads from a server that may lag.",
		edits: []edit{{in: "Counter.Get", old: `err := s.Sync(ctx, x.path.Abs()); err != nil`, new: `err := ctx.Err(); err != nil`}},
		test:  "go test ./internal/sim -run ^TestCounter -seeds 400",
	},
	{
		name:  "counter-overflow",
		what:  "A sum that does not fit wraps around.",
		edits: []edit{{in: "Add", old: `v > math.MaxInt64-delta`, new: `v > math.MaxInt64`}},
		test:  "env ZK_HARNESS=zktest go test ./internal/counter -run ^TestASumThatDoesNotFit",
	},
	{
		name:  "counter-spins",
		what:  "A client that loses races goes on without a turn.",
		edits: []edit{{in: "writer.writeIn", old: `p == nil && lost == maxLost`, new: `p == nil && lost < 0`}},
		test:  "env ZK_HARNESS=zktest go test ./internal/counter -run ^TestUnderContention",
	},
	{
		name: "counter-one-by-one",
		what: "Calls that wait are written one after the other.",
		edits: []edit{{
			in:  "writer.takeAll",
			old: `w.waiting = nil`,
			new: `
				w.waiting = nil
				if len(batch) > 1 {
					batch, w.waiting = batch[:1], batch[1:]
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/counter -run ^TestAddsOfOneProcess",
	},
	{
		name:  "counter-left-adds",
		what:  "The add of a caller that has left in time is carried out.",
		edits: []edit{{in: "writer.leave", old: `return other == one`, new: `return other == nil`}},
		test:  "env ZK_HARNESS=zktest go test ./internal/counter -run ^TestACallerThatLeaves",
	},
	{
		name:  "counter-container",
		what:  "A counter at a container goes when it is idle.",
		edits: []edit{{in: "writer.keepOps", old: `if !w.base.keep {`, new: `if w.base.keep {`}},
		test:  "env ZK_HARNESS=zktest go test ./internal/counter -run ^TestAnIdleCounterStays",
	},
	{
		name:  "counter-keeps-receipts",
		what:  "Receipts of counters that are not used any more stay.",
		edits: []edit{{in: "writer.run", old: `w.log.Close()`, new: `_ = w.log`}},
		test:  "env ZK_HARNESS=zktest go test ./internal/counter -run ^TestACountersReceipt",
	},
	{
		name:  "evict-next-leader",
		what:  "Evict deletes <path>/leader although it is the next leader's by then.",
		edits: []edit{{in: "checksOfLeader", old: `return []any{&zk.CheckVersionRequest{Path: first, Version: -1}}, nil`, new: `return nil, nil`}},
		test:  "env ZK_HARNESS=zktest go test . -run ^TestTheNextLeader",
	},
	{
		name:  "evict-first-waiter-holds",
		what:  "The first in the line of a semaphore counts as a holder.",
		edits: []edit{{in: "grantsLater", old: `return m.Recipe == semaphore ||`, new: `return m.Recipe == "" ||`}},
		test:  "env ZK_HARNESS=zktest go test . -run ^TestEachWaiterOfASemaphore",
	},
	{
		name:  "look-no-auth-ends",
		what:  "A znode that may not be read ends Recipes.",
		edits: []edit{{in: "IsSkip", old: ` || errors.Is(err, zk.ErrNoAuth)`, new: ``}},
		test:  "env ZK_HARNESS=zktest go test . -run ^TestRecipesSkips",
	},
	{
		name:  "look-without-bound",
		what:  "Recipes looks at more znodes than it may.",
		edits: []edit{{in: "walk.walkLevel", old: ` && w.chosen < w.limits.Znodes`, new: ``}},
		test:  "env ZK_HARNESS=zktest go test . -run ^TestRecipesTellsWhatItsBounds",
	},
}
