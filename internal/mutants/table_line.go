package main

// lineMutants are about joining a line, waiting in it and leaving it.
var lineMutants = []mutant{
	{
		name: "adopts-old-session",
		what: "A place of another session is adopted by the search after a lost reply.",
		edits: []edit{{
			in:  "line.findLostJoin",
			old: `case p.own.Stat.EphemeralOwner != s.ID():`,
			new: `case false:`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB04",
	},
	{
		name: "blind-to-kazoo",
		what: "kazoo's places are ignored.",
		edits: []edit{{
			in:  "lockKinds",
			old: `[]kind{kindLock, kindWrite, kindRead, kindKazooReader, kindKazooLock, kindLatch}`,
			new: `[]kind{kindLock, kindWrite, kindRead, kindLatch}`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "contenders-of-other-recipes",
		what: "Contenders of a lock lists the line of another recipe, such as an election's candidates.",
		edits: []edit{{
			in:  "line.checkUse",
			old: `return len(data) == 0, l.checkData(data)`,
			new: `return len(data) == 0, nil`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestTheLineOfAnotherRecipe",
	},
	{
		name: "event-across-reconnect",
		what: "An event is trusted on a connection on which the watches have not been confirmed.",
		edits: []edit{{
			in:  "place.awaitPredecessor",
			old: `p.first = trusted && changed && before.ConfirmedOn(conn) && p.own.ConfirmedOn(conn)`,
			new: `p.first = trusted && changed`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB(21|49)",
	},
	{
		name: "foreign-line-signals",
		what: "A place that others may write has a name that signals.",
		edits: []edit{{
			in:  "line.entry",
			old: `e := &entry{uuid: newUUID(owned), kind: k, state: state, owned: owned}`,
			new: `e := &entry{uuid: newUUID(true), kind: k, state: state, owned: owned}`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestB47WritesInALine",
	},
	{
		name: "foreign-signal",
		what: "A change of a foreign place's data is taken for the signal.",
		edits: []edit{{
			in:  "placeName.signals",
			old: `return (m.kind == kindLock || m.kind == kindWrite) && len(m.uuid) == 36 && m.uuid[14] == '8'`,
			new: `return m.kind == kindLock || m.kind == kindWrite`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "forgets-on-cancel",
		what: "A wait whose context ends leaves its place behind.",
		edits: []edit{{
			in:  "line.withPlace",
			old: `l.c.tasks.Start(func() { gone.leave(false) })`,
			new: `
				if ctx.Err() == nil {
					l.c.tasks.Start(func() { gone.leave(false) })
				}`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "lost-join-given-up",
		what: "A search for the place of a lost join that is refused is given up.",
		edits: []edit{{
			in:  "line.findLostJoin",
			old: `j.deleteLater()`,
			new: `s.leaveUnresolved(e.uuid)`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB70",
	},
	{
		name: "middle-waiter",
		what: "The death of a predecessor that only waited is taken for a grant.",
		edits: []edit{{
			in:  "place.awaitPredecessor",
			old: `p.first = trusted && changed && before.ConfirmedOn(conn) && p.own.ConfirmedOn(conn)`,
			new: `p.first = trusted && (changed || before.Deleted()) && before.ConfirmedOn(conn) && p.own.ConfirmedOn(conn)`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "no-own-watch",
		what: "A waiter does not watch its own place.",
		edits: []edit{{
			in: "place.watchPredecessor",
			old: `
				own := p.startOwn()
				before := p.s.StartWatch(p.line.abs() + "/" + pred.name)
				if err := p.awaitOwn(ctx, own); err != nil {
					return nil, err
				}`,
			new: `
				before := p.s.StartWatch(p.line.abs() + "/" + pred.name)
				p.own = &zkconn.Watch{}`,
		}, {
			in:  "place.awaitPredecessor",
			old: `p.first = trusted && changed && before.ConfirmedOn(conn) && p.own.ConfirmedOn(conn)`,
			new: `p.first = trusted && changed && before.ConfirmedOn(conn)`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "no-relisting",
		what: "After its predecessor is deleted, a waiter sleeps on instead of listing again.",
		edits: []edit{{
			in:  "place.awaitPredecessor",
			old: `trusted := pred.signals() && p.s.EnforcesACLs(ctx, p.line.abs())`,
			new: `
				if before.HasFired() || p.own.HasFired() {
					return nil
				}
				select {
				case <-before.Fired():
					if before.Deleted() {
						before = &zkconn.Watch{}
					}
				case <-ctx.Done():
					return zkconn.ContextErr(ctx)
				case <-p.own.Fired():
				case <-p.s.Over():
				}
				trusted := pred.signals() && p.s.EnforcesACLs(ctx, p.line.abs())`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "no-sync",
		what: "The search after a lost reply does not sync first.",
		edits: []edit{{
			in: "lostJoin.search",
			old: `
				err := j.s.Sync(ctx, path)
				var children []string
				if err == nil {`,
			new: `
				var err error
				var children []string
				{`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "own-watch-last",
		what: "A waiter checks the watch on its own place after the predecessor's event.",
		edits: []edit{{
			in:  "place.awaitPredecessor",
			old: `if p.own.HasFired() {`,
			new: `if p.own.HasFired() && !before.HasFired() {`,
		}},
		test: "go test -timeout 30m ./internal/sim -run Mutex -seeds 8000",
	},
	{
		name: "reader-first-writer",
		what: "A reader waits for the first writer ahead instead of the nearest.",
		edits: []edit{{
			in:  "place.nearestBlocking",
			old: `case nearest == nil || nearest.compare(m) < 0:`,
			new: `case nearest == nil || nearest.compare(m) < 0 == p.kind.exclusive():`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
	{
		name: "reader-later-writer",
		what: "A reader waits for the writers behind it too.",
		edits: []edit{{
			in:  "place.onlyAhead",
			old: `m.compare(p.placeName) >= 0 ||`,
			new: `m.compare(p.placeName) >= 0 && !(p.kind == kindRead && m.kind == kindWrite) ||`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
	{
		name: "reader-signals",
		what: "A reader that leaves sends the signal of an exclusive holder, which its successor trusts.",
		edits: []edit{{
			in:  "placeName.signals",
			old: `return (m.kind == kindLock || m.kind == kindWrite) && len(m.uuid) == 36 && m.uuid[14] == '8'`,
			new: `return (m.kind == kindLock || m.kind == kindWrite || m.kind == kindRead) && len(m.uuid) == 36 && m.uuid[14] == '8'`,
		}, {
			in:  "place.exitOps",
			old: `if !signal || !p.kind.exclusive() || !p.signals() || !p.s.IsOwner() {`,
			new: `if !signal || !p.signals() || !p.s.IsOwner() {`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
	{
		name: "recover-forgets",
		what: "A join whose reply was lost is sent again without a search.",
		edits: []edit{{
			in: "line.joinOutcome",
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
			in:  "line.withPlace",
			old: `l.c.tasks.Start(func() { gone.leave(false) })`,
			new: `l.c.tasks.Start(func() { gone.leave(true) })`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "writer-skips-readers",
		what: "A writer waits only for the writers ahead of it.",
		edits: []edit{{
			in:  "writersBlock",
			old: `return own.exclusive() || other.exclusive()`,
			new: `return other.exclusive()`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
}
