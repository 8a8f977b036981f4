package main

// shutdownMutants are about Close and Shutdown.
var shutdownMutants = []mutant{
	{
		name: "close-before-contexts",
		what: "Close ends the session before the contexts of its leases.",
		edits: []edit{{
			in:  "Client.shutdown",
			old: `s.end(errs.ErrClosed)`,
			new: `defer s.end(errs.ErrClosed)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestCloseEndsAllContexts",
	},
	{
		name: "close-one-by-one",
		what: "Close deletes the places of its waiters one by one.",
		edits: []edit{{
			in:  "Place.leave",
			old: `p.Line.Client.Closing.Err() == nil`,
			new: `true`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestCloseEndsAllContexts",
	},
	{
		name: "shutdown-cuts-puts",
		what: "Shutdown closes the client while a Put is under way.",
		edits: []edit{{
			in:  "Queue.append",
			old: `defer q.Client.Writes.End()`,
			new: `q.Client.Writes.End()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestShutdownWaitsForAPutUnderWayButNotForRoom",
	},
	{
		name: "shutdown-grants-on",
		what: "A grant that comes at the moment of a Shutdown is neither refused nor waited for.",
		edits: []edit{{
			in:  "watchdog.add",
			old: `case s.Client.Held.IsStopped():`,
			new: `case s.Client.Closing.Err() != nil:`,
		}, {
			in: "watchdog.add",
			old: `
				case !g.idle && !s.Client.Held.Begin():
					return errs.ErrClosed`,
			new: `
				}
				if !g.idle {
					s.Client.Held.GoOn()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestNothingIsGrantedAfterShutdownHasBegun",
	},
	{
		name: "shutdown-keeps",
		what: "A place that is kept stays in its line during a Shutdown.",
		edits: []edit{{
			in:  "Client.finishWork",
			old: `keep.LeaveIdle(c.client)`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestShutdownLeavesLocksThatAreKeptAndKeepsNone",
	},
	{
		name: "shutdown-leaves-serve",
		what: "Shutdown does not wait for a handler that has lost its item.",
		edits: []edit{{
			in:  "queue.Queue.Serve",
			old: `defer q.Client.Held.End()`,
			new: `q.Client.Held.End()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestALossEndsWhatAShutdownWaitsFor",
	},
	{
		name: "shutdown-leaves-visit",
		what: "Shutdown does not wait for a Leave that waits for the others.",
		edits: []edit{{
			in:  "barrier.Visit.Leave",
			old: `defer c.Held.End()`,
			new: `c.Held.End()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestShutdownWaitsForALeaveUnderWay",
	},
	{
		name: "shutdown-misses-idle",
		what: "A call that begins after a Shutdown takes a place before it learns of it.",
		edits: []edit{{
			in: "bindTo",
			old: `
				if end.Err() != nil { // AfterFunc takes a moment, in which the call would begin
					ended()
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestShutdownWaitsForALeaseThatGoesOnWorking",
	},
	{
		name: "shutdown-takes-kept",
		what: "A place that was kept is taken again during a Shutdown.",
		edits: []edit{{
			in: "Grant.Begun",
			old: `
				if g.err != nil || !g.Line.Client.Held.Begin() {
					return false
				}`,
			new: `
				if g.err != nil {
					return false
				}
				g.Line.Client.Held.GoOn()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestNothingIsGrantedAfterShutdownHasBegun",
	},
}
