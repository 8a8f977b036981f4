package main

// idleMutants are about the deletion of lines that nobody uses.
var idleMutants = []mutant{
	{
		name: "container-without-a-child",
		what: "A container is created without a child, and then old servers never delete it.",
		edits: []edit{{
			in:  "Session.CreateContainer",
			old: `o := s.Multi(ctx, ops...)`,
			new: `o := s.Multi(ctx, ops[:1]...)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestNoContainerStaysForEver",
	},
	{
		name: "idle-line-another-znode",
		what: "The client does not look whether a znode of another incarnation stands in the place of its line.",
		edits: []edit{{
			in:  "containers.tidyBatch",
			old: `case now.Czxid != e.stat.Czxid, now.Version != e.stat.Version, now.Aversion != 0:`,
			new: `case now.Version != e.stat.Version, now.Aversion != 0:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestOnlyLinesOfThisLibraryAreDeleted",
	},
	{
		name: "idle-line-guest",
		what: "A line counts as this library's although somebody else has made it.",
		edits: []edit{{
			in:  "Line.NoteWritten",
			old: `if bears.Seal != "" {`,
			new: `if true {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestOnlyLinesOfThisLibraryAreDeleted",
	},
	{
		name: "idle-line-held",
		what: "A line is looked at although the session has a place in it.",
		edits: []edit{{
			in:  "containers.withoutUsed",
			old: `holds[i] = s.HasBelow(e.path)`,
			new: `holds[i] = false`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestALineInUseIsNotEvenLookedAt",
	},
	{
		name: "idle-line-used-by-others",
		what: "A line is deleted although another client has used it since.",
		edits: []edit{{
			in:  "containers.tidyBatch",
			old: `case now.Czxid != e.stat.Czxid, now.Version != e.stat.Version, now.Aversion != 0:`,
			new: `case now.Czxid != e.stat.Czxid, now.Aversion != 0:`,
		}, {
			in:  "containers.tidyBatch",
			old: `default:`,
			new: `
				default:
					e.stat.Version = now.Version`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestALineThatAnotherClientHasUsedSinceIsLeftToIt",
	},
	{
		name: "idle-lost-reply",
		what: "A line whose deletion was lost with the connection is left.",
		edits: []edit{{
			in:  "containers.settle",
			old: `case zkconn.Transient(err), errors.Is(err, zkconn.ErrSessionOver), errors.Is(err, errs.ErrClosed):`,
			new: `case errors.Is(err, zkconn.ErrSessionOver), errors.Is(err, errs.ErrClosed):`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestADisconnectedClientDeletesLaterAndAnotherSessionGoesOn",
	},
	{
		name: "idle-memory-unbounded",
		what: "What is remembered of containers is not bounded.",
		edits: []edit{{
			in:  "containers.makeRoom",
			old: `for len(t.all) >= maxContainers {`,
			new: `for len(t.all) >= 10*maxContainers {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestWhatIsRememberedOfContainersIsBounded",
	},
	{
		name: "idle-parent-stays",
		what: "Parents stay when the last line below them is deleted.",
		edits: []edit{{
			in:  "containers.settle",
			old: `if parent := t.remove(e.container); parent != nil && parent.in == t.rest && parent.czxid != 0 {`,
			new: `if parent := t.remove(e.container); parent != nil && parent.in == nil && parent.czxid != 0 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestParentsThatTheClientHasCreatedAreDeletedWithTheLastLine",
	},
	{
		name: "idle-size",
		what: "The znode that holds the size of a semaphore or barrier is deleted.",
		edits: []edit{{
			in:  "containers.noteCreated",
			old: `if len(data) == 0 || layout.IsMark(data) {`,
			new: `if len(data) == 0 || len(data) > 0 || layout.IsMark(data) {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestEachRecipeLeavesNothingButWhatMustStay",
	},
	{
		name: "idle-without-a-pause",
		what: "Idle lines are deleted as fast as the servers reply.",
		edits: []edit{{
			in:  "containers.tidy",
			old: `next := time.NewTimer(tidyPause)`,
			new: `next := time.NewTimer(tidyPause / 10)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestManyLinesAreDeletedTogetherAndNotTooFast",
	},
}
