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
		name: "event-across-reconnect",
		what: "An event is trusted on a connection on which the watches have not been confirmed.",
		edits: []edit{{
			in:  "Place.awaitPredecessor",
			old: `p.First = trusted && changed && before.ConfirmedOn(conn) && p.Own.ConfirmedOn(conn)`,
			new: `p.First = trusted && changed`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/costs -run TestCosts/reconnected",
	},
	{
		name: "foreign-line-signals",
		what: "A place that others may write has a name that signals.",
		edits: []edit{{
			in:  "Line.Entry",
			old: `e := &Entry{uuid: placename.NewUUID(owned), kind: k, state: state, owned: owned}`,
			new: `e := &Entry{uuid: placename.NewUUID(), kind: k, state: state, owned: owned}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestWritesInALine",
	},
	{
		name: "foreign-signal",
		what: "A change of a foreign place's data is taken for the signal.",
		edits: []edit{{
			in:  "Parts.Signals",
			old: `return (m.Kind == KindLock || m.Kind == KindWrite) && len(m.UUID) == 36 && m.UUID[14] == '8'`,
			new: `return m.Kind == KindLock || m.Kind == KindWrite`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
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
		name: "middle-waiter",
		what: "The death of a predecessor that only waited is taken for a grant.",
		edits: []edit{{
			in:  "Place.awaitPredecessor",
			old: `p.First = trusted && changed && before.ConfirmedOn(conn) && p.Own.ConfirmedOn(conn)`,
			new: `p.First = trusted && (changed || before.Deleted()) && before.ConfirmedOn(conn) && p.Own.ConfirmedOn(conn)`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "no-own-watch",
		what: "A waiter does not watch its own place.",
		edits: []edit{{
			in: "Place.watchPredecessor",
			old: `
				own := p.startOwn()
				before := p.Session.StartWatch(p.Line.Abs() + "/" + pred.Name)
				if err := p.awaitOwn(ctx, own); err != nil {
					return nil, err
				}`,
			new: `
				before := p.Session.StartWatch(p.Line.Abs() + "/" + pred.Name)
				p.Own = &zkconn.Watch{}`,
		}, {
			in:  "Place.awaitPredecessor",
			old: `p.First = trusted && changed && before.ConfirmedOn(conn) && p.Own.ConfirmedOn(conn)`,
			new: `p.First = trusted && changed && before.ConfirmedOn(conn)`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "no-relisting",
		what: "After its predecessor is deleted, a waiter sleeps on instead of listing again.",
		edits: []edit{{
			in:  "Place.awaitPredecessor",
			old: `trusted := pred.Signals() && p.Session.EnforcesACLs(ctx, p.Line.Abs())`,
			new: `
				if before.HasFired() || p.Own.HasFired() {
					return nil
				}
				select {
				case <-before.Fired():
					if before.Deleted() {
						before = &zkconn.Watch{}
					}
				case <-ctx.Done():
					return zkconn.ContextErr(ctx)
				case <-p.Own.Fired():
				case <-p.Session.Over():
				}
				trusted := pred.Signals() && p.Session.EnforcesACLs(ctx, p.Line.Abs())`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
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
		name: "own-watch-last",
		what: "A waiter checks the watch on its own place after the predecessor's event.",
		edits: []edit{{
			in:  "Place.awaitPredecessor",
			old: `if p.Own.HasFired() {`,
			new: `if p.Own.HasFired() && !before.HasFired() {`,
		}},
		test: "go test -timeout 30m ./internal/sim -run Mutex -seeds 8000",
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
		what: "A reader that leaves sends the signal of an exclusive holder, which its successor trusts.",
		edits: []edit{{
			in:  "Parts.Signals",
			old: `return (m.Kind == KindLock || m.Kind == KindWrite) && len(m.UUID) == 36 && m.UUID[14] == '8'`,
			new: `return (m.Kind == KindLock || m.Kind == KindWrite || m.Kind == KindRead) && len(m.UUID) == 36 && m.UUID[14] == '8'`,
		}, {
			in:  "Place.Departure",
			old: `if !p.Kind.Exclusive() || !p.Signals() || !p.Session.IsOwner() {`,
			new: `if !p.Signals() || !p.Session.IsOwner() {`,
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
		test: "go test ./internal/sim -run Mutex -seeds 3000",
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
