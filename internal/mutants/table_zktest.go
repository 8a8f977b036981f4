package main

// zktestMutants are about the server for tests.
var zktestMutants = []mutant{
	{
		name: "zktest-children-sorted",
		what: "zktest lists children by name, where a real server has another order.",
		edits: []edit{{
			in:  "childSet.list",
			old: `return cmp.Or(cmp.Compare(x.hash&(s.buckets-1), y.hash&(s.buckets-1)), cmp.Compare(x.number, y.number))`,
			new: `return cmp.Or(cmp.Compare(a, b), cmp.Compare(x.number, y.number))`,
		}},
		test: "go test ./zktest -run TestChildrenAreListed",
	},
	{
		name: "zktest-handshake-unbounded",
		what: "zktest waits for ever for a ConnectRequest.",
		edits: []edit{{
			in:  "conn.handshake",
			old: `c.nc.SetReadDeadline(time.Now().Add(handshakeTimeout))`,
		}},
		test: "go test ./zktest -run TestAConnectionWithoutAHandshake -timeout 1m",
	},
	{
		name: "zktest-restart-keeps-deadlines",
		what: "A restarted zktest server counts the sessions' timeouts from before its stop.",
		edits: []edit{{
			in: "Server.begin",
			old: `
				for _, ss := range s.sessions {
					s.touch(ss, s.started)
				}`,
		}},
		test: "go test ./zktest -run TestSessionsCountTheirTimeoutAnew",
	},
	{
		name: "zktest-watch-replaced",
		what: "In zktest as 3.9, a one-shot watch replaces a persistent one.",
		edits: []edit{{
			in:  "watches.add",
			old: `if w.server.opt.version >= ZooKeeper39 {`,
			new: `if w.server.opt.version > ZooKeeper39 {`,
		}},
		test: "go test ./zktest -run TestWatchesOfDifferentModes",
	},
}
