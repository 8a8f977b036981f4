package main

// traceMutants are about what a Trace is told.
var traceMutants = []mutant{
	{
		name: "hooks-drop-silently",
		what: "Calls of a Trace that do not fit are dropped without a word.",
		edits: []edit{{
			in:  "Caller.call",
			old: `h.dropped += c.events`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run Dropped(And|Events)",
	},
	{
		name: "told-no-early-end",
		what: "A hold that has ended before the acquisition is never told to end.",
		edits: []edit{{
			in:  "Grant.Tell",
			old: `g.noteEnd()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestTraceTellsAGrantBeforeItsEnd",
	},
	{
		name: "told-too-late",
		what: "The end of an acquisition is told to the Trace after its hold can have ended.",
		edits: []edit{{
			in: "Grant.Tell",
			old: `
				g.mu.Lock()
				defer g.mu.Unlock()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -race -run TestTraceTellsAGrantBeforeItsEnd",
	},
	{
		name: "told-no-kept-predecessor",
		what: "A kept lock that is granted again has the predecessor of the first time.",
		edits: []edit{{
			in:  "acquisition.predecessor",
			old: `g.Token != line.TokenOf(p.Czxid, 0)`,
			new: `false`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestAKeptLockThatIsGranted",
	},
	{
		name: "told-items-predecessor",
		what: "Items that were taken together are told to have been held before.",
		edits: []edit{{
			in:  "acquisition.predecessor",
			old: `return ""`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestTraceTellsThePredecessorsOfWriters",
	},
	{
		name: "hold-always-ongoing",
		what: "A hold that has ended counts as ongoing.",
		edits: []edit{{
			in:  "Hold.Ongoing",
			old: `return false`,
			new: `return true`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestAHoldWhoseEnd",
	},
	{
		name: "joined-after-a-panic",
		what: "A function that panics keeps the others of JoinTraces from being called.",
		edits: []edit{{
			in:  "hooks.Join",
			old: `defer b(e)`,
			new: `defer func() { if recover() == nil { b(e) } }()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestJoinTracesCallsAllFunctions",
	},
	{
		name: "traced-by-the-hook",
		what: "A hook's context takes the place of the call's.",
		edits: []edit{{
			in:  "startAcquire",
			old: `return line.WithWaiter(ctx, a), a`,
			new: `return line.WithWaiter(a.ctx, a), a`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestContextOfAcquireStart",
	},
	{
		name: "traces-one-of-many",
		what: "Only the first of several items is told to the Trace.",
		edits: []edit{{
			in:  "Queue.acquire",
			old: `for i, it := range taken {`,
			new: `for i, it := range taken[:1] {`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestTraceReportsEach",
	},
}
