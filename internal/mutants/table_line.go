package main

// lineMutants are about joining a line, waiting in it and leaving it.
var lineMutants = []mutant{
	{
		name: "adopts-old-session",
		what: "A place of another session is adopted by the search after a lost reply.",
		edits: []edit{{
			in:  "Line.FindLostJoin",
			old: `case p.Own.Stat.EphemeralOwner != s.ID():`,
			new: `case false:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestAPlaceOfAnotherSession",
	},
	{
		name: "blind-to-kazoo",
		what: "kazoo's places are ignored.",
		edits: []edit{{
			in:  "LockKinds",
			old: `[]Kind{KindLock, KindWrite, KindRead, kindKazooReader, kindKazooLock, KindLatch}`,
			new: `[]Kind{KindLock, KindWrite, KindRead, KindLatch}`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "contenders-of-other-recipes",
		what: "Contenders of a lock lists the line of another recipe, such as an election's candidates.",
		edits: []edit{{
			in:  "checkUse",
			old: `return len(data) == 0, l.CheckData(data)`,
			new: `return len(data) == 0, nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestTheLineOfAnotherRecipe",
	},
	{
		name: "forgets-on-cancel",
		what: "A wait whose context ends leaves its place behind.",
		edits: []edit{{
			in:  "Line.WithPlace",
			old: `l.Client.Tasks.Start(gone.Withdraw)`,
			new: `
				if ctx.Err() == nil {
					l.Client.Tasks.Start(gone.Withdraw)
				}`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "line-evicts-behind-those-aside",
		what: "A holder is evicted as a waiter because a place beyond the limit sorts before its own.",
		edits: []edit{{
			in:  "Contender.checksOfWaiter",
			old: `if !stepsAside(s, m) && m.Compare(own)`,
			new: `if m.Compare(own)`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestAPlaceBeyondTheLimitIsEvictedAndTheHolderBehindItIsSpared$",
	},
	{
		name: "line-reaped-is-deleted",
		what: "A waiter that was evicted takes the line, which the servers have reaped, for a tree that was deleted.",
		edits: []edit{{
			in:  "Place.treeDeleted",
			old: `zkconn.Parent(p.Line.Abs())`,
			new: `p.Line.Abs()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestTheOnlyWaiterOfASemaphoreCanBeEvictedAlthoughItsLineIsReaped$",
	},
	{
		name: "lost-join-given-up",
		what: "A search for the place of a lost join that is refused is given up.",
		edits: []edit{{
			in:  "Line.FindLostJoin",
			old: `l.DeleteLost(s, e)`,
			new: `unresolvedOf(s).add(e.uuid)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run LostJoin.*(Refused|Deleted|Nobody)|^TestSearchThatIsRefused",
	},
	{
		name: "no-own-watch",
		what: "A waiter does not look at the events of its own place.",
		edits: []edit{{
			in: "Place.awaitPredecessor",
			old: `
				case <-p.Own.Fired():
				case <-late.C:`,
			new: `case <-late.C:`,
		}, {
			in:  "Place.awaitPredecessor",
			old: `if p.Own != nil && p.Own.HasFired() {`,
			new: `if false {`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 200",
	},
	{
		name: "no-relisting",
		what: "After its predecessor is deleted, a waiter sleeps on instead of listing again.",
		edits: []edit{{
			in:  "Place.awaitPredecessor",
			old: `p.First = before.IsReleased() && p.Own != nil`,
			new: `
				if p.First = before.IsReleased() && p.Own != nil; !p.First && !before.IsLost() {
					select {
					case <-ctx.Done():
						return p.Session.ContextErr(ctx)
					case <-p.Own.Fired():
					case <-p.Session.Over():
						return zkconn.ErrSessionOver
					}
				}`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 200",
	},
	{
		name: "no-sync",
		what: "The search after a lost reply does not sync first.",
		edits: []edit{{
			in: "lostJoin.search",
			old: `
				err := j.session.Sync(ctx, path)
				var children []string
				if err == nil {`,
			new: `
				var err error
				var children []string
				{`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestSearchForAJoinFollowsASync",
	},
	{
		name: "reader-first-writer",
		what: "A reader waits for the first writer ahead instead of the nearest.",
		edits: []edit{{
			in:  "Place.nearestBlocking",
			old: `case nearest == nil || nearest.Compare(m) < 0:`,
			new: `case nearest == nil || nearest.Compare(m) < 0 == p.Kind.Exclusive():`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
	{
		name: "reader-later-writer",
		what: "A reader waits for the writers behind it too.",
		edits: []edit{{
			in:  "Place.onlyAhead",
			old: `m.Compare(p.Parts) >= 0 ||`,
			new: `m.Compare(p.Parts) >= 0 && !(p.Kind == placename.KindRead && m.Kind == placename.KindWrite) ||`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
	{
		name: "reader-signals",
		what: "A reader that leaves looks like an exclusive holder that releases the line.",
		edits: []edit{{
			in:  "Place.Departure",
			old: `if !p.Kind.Exclusive() || !p.Bears.LetsWrite() {`,
			new: `if !p.Bears.LetsWrite() {`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
	{
		name: "recover-forgets",
		what: "A join whose reply was lost is sent again without a search.",
		edits: []edit{{
			in: "Line.JoinOutcome",
			old: `
				p, err := l.settleJoin(ctx, s, t, e)
				if p == nil && err == nil {
					err = zkconn.ErrNotSent // or not applied: it can be sent again, too
				}
				return p, zkconn.Failure(err)`,
			new: `
				if ctx.Err() != nil {
					return nil, zkconn.Failure(zkconn.ContextErr(ctx))
				}
				return nil, zkconn.Failure(zkconn.ErrNotSent)`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "waiter-signals",
		what: "A waiter that gives up sends the signal of a holder.",
		edits: []edit{{
			in:  "Line.WithPlace",
			old: `l.Client.Tasks.Start(gone.Withdraw)`,
			new: `l.Client.Tasks.Start(func() { _ = gone.leave(true) })`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 200",
	},
	{
		name: "writer-skips-readers",
		what: "A writer waits only for the writers ahead of it.",
		edits: []edit{{
			in:  "WritersBlock",
			old: `return own.Exclusive() || other.Exclusive()`,
			new: `return other.Exclusive()`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
}
