package main

// keepMutants are about places that a process keeps between two holders.
var keepMutants = []mutant{
	{
		name: "keep-believes-on",
		what: "A busy process never asks again whether its place is alone.",
		edits: []edit{{
			in:  "keptLock.PassOn",
			old: `goesOn := !first && !company && k.released.Sub(k.confirmed) < k.d`,
			new: `goesOn := !first && !company`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestLostEventIsFoundOutByABusyProcess",
	},
	{
		name: "keep-beyond-d",
		what: "An idle lock is kept for longer than d.",
		edits: []edit{{
			in:  "keptLock.become",
			old: `k.due = time.AfterFunc(time.Until(k.released.Add(k.d)), func() {`,
			new: `k.due = time.AfterFunc(2*k.d, func() {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestKeptLockIsLeftOnceItWasNotUsedForD",
	},
	{
		name: "keep-deletion-missed",
		what: "A deletion that was told to the last grant of a kept place is not told to the next.",
		edits: []edit{{
			in:  "watchdog.add",
			old: `case last != nil && last.deleted:`,
			new: `case last != nil && last.deleted && false:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestDeletionHeardOfDuringAReleaseIsNotForgotten",
	},
	{
		name: "keep-early-on-a-deleted-place",
		what: "Callers that came early are granted a place although it was deleted.",
		edits: []edit{{
			in:  "keptLock.PassOn",
			old: `goesOn = k.stands(next.Place())`,
			new: `goesOn = true`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestCallersThatCameEarlyAreNotServedOnAPlaceThatWasDeleted",
	},
	{
		name: "keep-ends-with-its-caller",
		what: "The wait for a place ends with the caller that began it.",
		edits: []edit{{
			in:  "keptLock.remove",
			old: `if len(k.calls) == 0 && k.stop != nil {`,
			new: `if k.stop != nil {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestCallersThatGiveUpAreRemoved",
	},
	{
		name: "keep-late-commit",
		what: "A Commit that waited for a connection is sent after its lease was released.",
		edits: []edit{{
			in:  "Handle.beginCommit",
			old: `t, err = h.Grant.Session.BeginBy(ctx, h.Grant.Start, slices.Concat(guard, ops)...)`,
			new: `t, err = h.Grant.Session.Begin(ctx, slices.Concat(guard, ops)...)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestCommitOfAReleasedLeaseIsNotSent",
	},
	{
		name: "keep-late-first",
		what: "Callers that come after another session go before it.",
		edits: []edit{{
			in:  "keptLock.servesEarly",
			old: `return k.hasCompany() && len(k.calls) > 0 && !k.calls[0].late`,
			new: `return k.hasCompany() && len(k.calls) > 0`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestCallersGoBeforeOrAfterAnotherSessionAsTheyCame",
	},
	{
		name: "keep-not-alone",
		what: "A place is kept although others stand in its line.",
		edits: []edit{{
			in:  "keptLock.ask",
			old: `if err != nil || int(line.NumChildren) > 1+state.Others {`,
			new: `if err != nil || int(line.NumChildren) < state.Others {`,
		}, {
			in:  "isAlone",
			old: `return len(ms) == 1 && ms[0].Name == p.Name && !line.IsBeyondLimit(p.Line.Client, line.NextNumber(stat))`,
			new: `return len(ms) > 0 && !line.IsBeyondLimit(p.Line.Client, line.NextNumber(stat))`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run ^TestLockIsNotKeptIfAnotherSessionJoinedBeforeItsFirstRelease$",
	},
	{
		name: "keep-numbers-run-over",
		what: "A kept place is granted more than 256 times.",
		edits: []edit{{
			in: "Grant.Successor",
			old: `
				if g.Token&lastGrant == lastGrant {
					return nil
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestPlaceIsTakenAnewAfter256Holds",
	},
	{
		name: "keep-one-token",
		what: "The holders of a kept place share its token.",
		edits: []edit{{
			in:  "Grant.Successor",
			old: `Line: g.Line, Session: g.Session, Token: g.Token + 1, kept: g.kept, idle: true,`,
			new: `Line: g.Line, Session: g.Session, Token: g.Token, kept: g.kept, idle: true,`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestKeptLockIsTakenAgainWithoutARequest",
	},
	{
		name: "keep-replaced-twice",
		what: "A place that is lost while it is passed on is replaced at once, and again.",
		edits: []edit{{
			in:  "keptLock.Ended",
			old: `case k.phase == passing: // PassOn runs, and makes it vacant`,
			new: `case false:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestPlaceThatIsDeletedWhileItIsPassedOnIsReplacedOnce",
	},
	{
		name: "keep-unwatched",
		what: "A kept lock's line is not watched.",
		edits: []edit{{
			in: "keptLock.confirm",
			old: `
				select {
				case <-w.Fired():
					k.leaveIdle(func(*line.Grant) bool { return k.watch == w })
				case <-gone:
				}`,
			new: `<-gone`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestKeptLockIsLeftWhenAnotherSessionJoins",
	},
	{
		name: "keep-young-for-ever",
		what: "Each holder of a kept place makes it young, so that it is never watched.",
		edits: []edit{{
			in:  "Grant.Successor",
			old: `Over: make(chan struct{}), handles: map[*Handle]struct{}{}, since: g.since,`,
			new: `Over: make(chan struct{}), handles: map[*Handle]struct{}{}, since: g.since.Add(1<<62),`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/keep -run TestHolderLearnsThatAKeptPlaceWasDeleted",
	},
}
