package main

// barrierMutants are about joining a barrier's round, leaving it and cleaning up after it.
var barrierMutants = []mutant{
	{
		name: "barrier-cancels-blindly",
		what: "A cancel does not check whether the round has been opened.",
		edits: []edit{{
			in:  "participant.withdraw",
			old: `notOpen := &zk.CheckVersionRequest{Path: a.Ready(), Version: 0}`,
			new: `notOpen := &zk.CheckVersionRequest{Path: a.Ready(), Version: -1}`,
		}},
		test: "go test ./internal/sim -run ^TestBarrier -seeds 50",
	},
	{
		name: "barrier-close-waits-to-leave",
		what: "Close waits until the members of a round would have left by themselves.",
		edits: []edit{{
			in:  "participant.leaveLater",
			old: `case <-c.Closing.Done():`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestCloseDoesNotWaitUntilMembers",
	},
	{
		name: "barrier-counts-lost",
		what: "A barrier's next call begins beside a place that an earlier call may have left.",
		edits: []edit{{
			in:  "Line.FindLostJoin",
			old: `l.Background(func() { l.deleteLostJoin(s, e) })`,
			new: `l.Client.Tasks.Start(func() { l.deleteLostJoin(s, e) })`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestNextCallOfABarrierIsNotCounted",
	},
	{
		name: "barrier-early-waits",
		what: "An early arrival waits for the last member to leave but does not join again.",
		edits: []edit{{
			in:  "participant.awaitPreviousRound",
			old: `return w, err`,
			new: `
				if err == nil {
					return a.awaitPreviousRound(s, w)
				}
				return w, err`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestEarlyArrivalThat",
	},
	{
		name: "barrier-expiry-not-lost",
		what: "A member of a barrier whose session ends gets an error that is not ErrLost.",
		edits: []edit{{
			in:  "ErrExpired",
			old: `fmt.Errorf("%w: the session ended while waiting: %w", ErrLost, zk.ErrSessionExpired)`,
			new: `fmt.Errorf("the session ended while waiting: %w", zk.ErrSessionExpired)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestAMemberIsLostWithItsSession",
	},
	{
		name: "barrier-join-not-listed",
		what: "A join whose reply was lost does not list.",
		edits: []edit{{
			in:  "participant.await",
			old: `if p.LineCount < 0 || p.LineCount-1 >= a.N {`,
			new: `if p.LineCount-1 >= a.N {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestJoinOfABarrier",
	},
	{
		name: "barrier-last-leaver",
		what: "Only the last member to leave deletes the round.",
		edits: []edit{{
			in:  "participant.awaitPreviousRound",
			old: `return nil, a.deleteRound(a.ctx, s, 1, signalRaised)`,
			new: `
				w, err := s.Watch(a.ctx, a.Ready())
				if errors.Is(err, zk.ErrNoNode) {
					return nil, nil
				}
				return w, err`,
		}},
		test: "go test ./internal/sim -run ^TestBarrier -seeds 20",
	},
	{
		name: "barrier-leaves-a-round",
		what: "A member that is canceled before it is in the round that it makes leaves that behind.",
		edits: []edit{{
			in:  "participant.run",
			old: `if a.began != nil {`,
			new: `if a.began != nil && false {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestFirst",
	},
	{
		name: "barrier-leaves-a-round-alone",
		what: "The only member of a round, which was evicted or whose session has ended, leaves the round behind.",
		edits: []edit{{
			in:  "participant.outcomeAfterExpiry",
			old: `a.deleteEmptyRound(s)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestOnly",
	},
	{
		name: "barrier-leaves-at-once",
		what: "A member leaves before the others have been told.",
		edits: []edit{{
			in:  "participant.finish",
			old: `a.leaveLater(p)`,
			new: `a.leave(p)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestMembersStay",
	},
	{
		name: "barrier-leaves-twice",
		what: "A member whose leave the next Wait has sent leaves once more.",
		edits: []edit{{
			in:  "participant.leaveLater",
			old: `leave := sync.OnceFunc(func() { a.leave(p) })`,
			new: `leave := func() { a.leave(p) }`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestMemberThatComesBack",
	},
	{
		name: "barrier-resend-blind",
		what: "A cancel that is sent again takes the deletion of its member for its own.",
		edits: []edit{{
			in: "participant.withdraw",
			old: `
					return a.outcomeAfterExpiry(p, why)
				case o.RefusedAt(notOpen, zk.ErrBadVersion):`,
			new: `
					if repeated {
						return 0, why
					}
					return a.outcomeAfterExpiry(p, why)
				case o.RefusedAt(notOpen, zk.ErrBadVersion):`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestACancel",
	},
	{
		name: "barrier-round-left",
		what: "The last member of a Barrier does not delete the round if its connection breaks.",
		edits: []edit{{
			in: "Barrier.deleteRound",
			old: `
				for o.Transient() {
					o = s.Multi(ctx, ops...)`,
			new: `
				if o.Transient() {
					return nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestTheLastMemberDeletesTheRound",
	},
	{
		name: "barrier-waits-for-its-own-leave",
		what: "The next Wait of a Barrier does not send the leaves that are put off.",
		edits: []edit{{
			in:  "barrier.Barrier.Wait",
			old: `b.leaveNow()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestMemberThatComesBack",
	},
	{
		name: "barrier-leaves-behind-a-join",
		what: "A member's leave is sent behind its Client's next join.",
		edits: []edit{{
			in:  "participant.leave",
			old: `t, err := p.Session.Start(&zk.DeleteRequest{Path: p.Path, Version: -1}, round)`,
		}, {
			in:  "participant.leave",
			old: `defer close(gone)`,
			new: `
				defer close(gone)
				t, err := p.Session.Start(&zk.DeleteRequest{Path: p.Path, Version: -1}, round)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -count 30 -run ComesBackAtOnce",
	},
}
