package main

// shutdownMutants are about Close and Shutdown.
var shutdownMutants = []mutant{
	{
		name: "close-one-by-one",
		what: "Close ends one lease after the other, and begins to delete at once.",
		edits: []edit{{
			in: "session.endGrants",
			old: `
				if g.endHeld(cause) {
					ds = append(ds, g.departure())
				}`,
			new: `g.end(cause)`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestB93",
	},
	{
		name: "shutdown-cuts-puts",
		what: "Shutdown closes the client while a Put is under way.",
		edits: []edit{{
			in:  "Queue.append",
			old: `defer q.c.writes.end()`,
			new: `q.c.writes.end()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestShutdownWaitsForAPutUnderWayButNotForRoom",
	},
	{
		name: "shutdown-grants-on",
		what: "A grant that comes at the moment of a Shutdown is neither refused nor waited for.",
		edits: []edit{{
			in:  "session.addGrant",
			old: `case s.c.held.isStopped():`,
			new: `case s.c.closing.Err() != nil:`,
		}, {
			in: "session.addGrant",
			old: `
				case !g.idle && !s.c.held.begin():
					return ErrClosed`,
			new: `
				}
				if !g.idle {
					s.c.held.goOn()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestNothingIsGrantedAfterShutdownHasBegun",
	},
	{
		name: "shutdown-keeps",
		what: "A place that is kept stays in its line during a Shutdown.",
		edits: []edit{{
			in:  "Client.finishWork",
			old: `c.leaveKept()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestShutdownLeavesLocksThatAreKeptAndKeepsNone",
	},
	{
		name: "shutdown-leaves-serve",
		what: "Shutdown does not wait for a handler that has lost its item.",
		edits: []edit{{
			in:  "Queue.Serve",
			old: `defer q.c.held.end()`,
			new: `q.c.held.end()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestALossEndsWhatAShutdownWaitsFor",
	},
	{
		name: "shutdown-leaves-visit",
		what: "Shutdown does not wait for a Leave that waits for the others.",
		edits: []edit{{
			in:  "Visit.leave",
			old: `defer c.held.end()`,
			new: `c.held.end()`,
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
		test: "env ZK_HARNESS=zktest go test . -run TestShutdownRefusesCallsThatDoNotWait",
	},
	{
		name: "shutdown-takes-kept",
		what: "A place that was kept is taken again during a Shutdown.",
		edits: []edit{{
			in: "grant.begun",
			old: `
				if g.err != nil || !g.line.c.held.begin() {
					return false
				}`,
			new: `
				if g.err != nil {
					return false
				}
				g.line.c.held.goOn()`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestNothingIsGrantedAfterShutdownHasBegun",
	},
}
