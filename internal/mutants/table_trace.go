package main

// traceMutants are about what a Trace is told.
var traceMutants = []mutant{
	{
		name: "hooks-drop-silently",
		what: "Calls of a Trace that do not fit are dropped without a word.",
		edits: []edit{{
			in:  "hooks.call",
			old: `h.dropped += c.events`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB75.*ropped",
	},
	{
		name: "told-no-early-end",
		what: "A hold that has ended before the acquisition is never told to end.",
		edits: []edit{{
			in: "acquisition.end",
			old: `
				if g.Err != nil { // before the caller had it
					g.NoteEnd()
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestTraceTellsAGrantBeforeItsEnd",
	},
	{
		name: "told-too-late",
		what: "The end of an acquisition is told to the Trace after its hold can have ended.",
		edits: []edit{{
			in: "acquisition.end",
			old: `
				g.Mu.Lock()
				defer g.Mu.Unlock()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -race -run TestTraceTellsAGrantBeforeItsEnd",
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
