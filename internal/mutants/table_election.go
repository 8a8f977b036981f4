package main

// electionMutants are about elections and their observers.
var electionMutants = []mutant{
	{
		name: "election-beside-a-latch",
		what: "A candidate stands in line beside a LeaderLatch of Curator's.",
		edits: []edit{{
			in:  "Line.look",
			old: `if m.Kind == placename.KindLatch || l.Foreign(m.Kind) {`,
			new: `if l.Foreign(m.Kind) {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestElectionRefusesThePathOfALeaderLatch$",
	},
	{
		name: "election-commit-unguarded",
		what: "A deposed leader commits: only its place is checked.",
		edits: []edit{{
			in:  "Grant.Guard",
			old: `paths := g.Place().guarded()`,
			new: `paths := g.Place().Paths()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestNoTermCommitsOnceTheLeadersZnodeWasDeleted$",
	},
	{
		name: "election-deletes-blindly",
		what: "An evicted leader deletes the leader's znode outside of a turn in the line.",
		edits: []edit{{
			in:  "candidate.release",
			old: `c.Line.Client.Tasks.Start(c.withdraw)`,
			new: `
				c.Line.Client.Tasks.Start(func() {
					time.Sleep(time.Second)
					c.Session.Multi(c.Session.Lifetime(), &zk.DeleteRequest{Path: c.leader, Version: -1})
				})`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestALeaderWhoseZnodeIsDeletedLosesItsTerm$",
	},
	{
		name: "election-ends-blindly",
		what: "A term whose znode was replaced deletes the other one at its end.",
		edits: []edit{{
			in:  "candidate.watchLeader",
			old: `c.leaderGone.Store(err != nil || !c.owns(&w.Stat))`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestATermThatEndsKeepsSomebodysZnodeAtTheLeadersPath$",
	},
	{
		name: "election-leader-unwatched",
		what: "A leader does not notice that the leader's znode was deleted.",
		edits: []edit{{
			in: "election.Enter",
			old: `
				if g, err = p.Grant(ctx); err == nil {
					l.Client.Tasks.Start(func() { c.watchLeader(g) })
				}`,
			new: `g, err = p.Grant(ctx)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestALeaderWhoseZnodeIsDeletedLosesItsTerm$",
	},
	{
		name: "election-leaves-znode",
		what: "An evicted leader leaves the leader's znode to its session.",
		edits: []edit{{
			in:  "candidate.release",
			old: `c.Line.Client.Tasks.Start(c.withdraw)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestAnEvictedLeaderDeletesItsOtherZnode$",
	},
	{
		name: "election-quits-blindly",
		what: "A campaign that fails deletes whatever is at the leader's path.",
		edits: []edit{{
			in:  "candidate.deleteOps",
			old: `case c.czxid != 0:`,
			new: `case true:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestACampaignThatIsCanceledKeepsSomebodysZnodeAtTheLeadersPath$",
	},
	{
		name: "election-replaces-any",
		what: "A candidate replaces a znode at the leader's path that no session owns.",
		edits: []edit{{
			in:  "candidate.replaceOps",
			old: `case stat.EphemeralOwner == 0:`,
			new: `case stat.EphemeralOwner == -1:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestSomebodysOwnZnodeAtTheLeadersPathIsKept$",
	},
	{
		name: "election-replaces-none",
		what: "A candidate waits for the znode of an evicted leader to go.",
		edits: []edit{{
			in:  "candidate.create",
			old: `if replaced, err = c.replaceOps(ctx); err != nil {`,
			new: `if _, err = c.replaceOps(ctx); err != nil {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestTheNextLeaderReplacesWhatAnEvictedOneLeft$",
	},
	{
		name: "election-resigns-silently",
		what: "A leader whose znode was deleted resigns as if it had led until then.",
		edits: []edit{{
			in:  "candidate.release",
			old: `deposed = o.Is(zk.ErrNoNode)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestADeposedLeaderLearnsOfItWhenItResigns$",
	},
	{
		name: "election-token-of-place",
		what: "The token of a Term is its place's, not the one that observers see.",
		edits: []edit{{
			in:  "candidate.create",
			old: `c.Place.Czxid, c.Checked = c.czxid, []string{c.leader}`,
			new: `c.Checked = []string{c.leader}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestProclaimPublishesAnotherValueOfTheSameTerm$",
	},
	{
		name: "election-unguarded",
		what: "A candidate creates the leader's znode without the guard of its place.",
		edits: []edit{{
			in:  "candidate.create",
			old: `o := c.Session.Retry(nil, []any{check}, replaced, []any{create, set}).Wait(ctx)`,
			new: `o := c.Session.Retry(nil, replaced, []any{create, set}).Wait(ctx)`,
		}, {
			in:  "candidate.create",
			old: `case o.RefusedAt(check, zk.ErrNoNode):`,
			new: `case check == nil:`,
		}},
		test: "go test ./internal/sim -run ^TestElection -seeds 300",
	},
	{
		name: "election-withdraws-once",
		what: "An evicted leader tries once to delete the leader's znode.",
		edits: []edit{{
			in:  "candidate.withdraw",
			old: `if err == nil || c.Session.IsOver() || c.Line.Client.Closing.Err() != nil {`,
			new: `if true || err == nil || c.Session.IsOver() || c.Line.Client.Closing.Err() != nil {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestAnEvictedLeaderThatMayNotJoinDeletesItsZnodeLater$",
	},
	{
		name: "lead-ends-when-full",
		what: "Lead ends when the session is full.",
		edits: []edit{{
			in:  "Election.leadOnce",
			old: `t, err := e.campaign(ctx, "lead", value, election.EnterWithRoom)`,
			new: `t, err := e.campaign(ctx, "lead", value, election.Enter)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/session -run ^TestLeadWaitsWhileTheSessionIsFull$",
	},
	{
		name: "lead-twice",
		what: "Two calls of Lead in a process lead at the same time.",
		edits: []edit{{
			in:  "Election.leadOnce",
			old: `defer turn.End()`,
			new: `turn.End()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestLeadDoesNotLeadAgainBeforeItsFunctionHasReturned$",
	},
	{
		name: "observe-never-none",
		what: "An observer that is told of no leader waits for the next one.",
		edits: []edit{{
			in:  "Observer.tell",
			old: `if o.yielded && now.Czxid == o.last.Czxid && bytes.Equal(now.Value, o.last.Value) {`,
			new: `if now.Czxid == 0 && o.yielded || o.yielded && now.Czxid == o.last.Czxid && bytes.Equal(now.Value, o.last.Value) {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/election -run ^TestObserveYieldsEachLeaderAndNone$",
	},
}
