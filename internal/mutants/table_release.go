package main

// releaseMutants are about how a waiter knows that its predecessor has released the line.
var releaseMutants = []mutant{
	{
		name: "release-any-change",
		what: "A deletion is believed to be a release if the data were set at any time before.",
		edits: []edit{{
			in:  "Session.notePredecessor",
			old: `e.Zxid > 0 && e.Zxid == w.changed`,
			new: `e.Zxid > 0 && w.changed > 0`,
		}},
		test: "go test ./internal/zkconn -run ^TestPredecessor",
	},
	{
		name: "release-any-deletion",
		what: "Any deletion is believed to be a release.",
		edits: []edit{{
			in:  "Session.notePredecessor",
			old: `e.Zxid > 0 && e.Zxid == w.changed`,
			new: `true`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 100",
	},
	{
		name: "release-without-zxids",
		what: "Events that bear no zxid are believed to be of one transaction.",
		edits: []edit{{
			in:  "Session.notePredecessor",
			old: `e.Zxid > 0 && e.Zxid == w.changed`,
			new: `e.Zxid == w.changed`,
		}},
		test: "go test ./internal/zkconn -run ^TestPredecessor",
	},
	{
		name: "release-before-the-answers",
		what: "An event is believed that came before the watch was answered.",
		edits: []edit{{
			in:  "Session.notePredecessor",
			old: `if w.answered {`,
			new: `{`,
		}},
		test: "go test ./internal/zkconn -run ^TestPredecessor",
	},
	{
		name: "release-on-another-connection",
		what: "The watch on a predecessor is kept when its connection is lost.",
		edits: []edit{{
			in:  "Session.losePredecessors",
			old: `if w.conn == conn {`,
			new: `if false {`,
		}},
		test: "go test ./internal/zkconn -run ^TestPredecessor",
	},
	{
		name: "release-own-watch-ignored",
		what: "A waiter whose place was deleted is granted when its predecessor releases the line.",
		edits: []edit{{
			in:  "Place.awaitPredecessor",
			old: `if p.Own != nil && p.Own.HasFired() { // must come first`,
			new: `if p.Own != nil && p.Own.HasFired() && !before.HasFired() {`,
		}},
		test: "go test ./internal/line -run ^TestAWaiterThatWasEvicted",
	},
	{
		name: "release-costs-a-listing",
		what: "The watch that tells of the set is missing, so each hand-over lists the line.",
		edits: []edit{{
			in:  "Session.startPredecessor",
			old: `both := s.tellsZxids()`,
			new: `both := s.tellsZxids() && false`,
		}},
		test: "go test ./internal/costs -run ^TestCosts$/:_Release_with_a_waiter,_which_is_granted",
	},
	{
		name: "release-watch-asks-3.8",
		what: "Where events bear no zxids, a waiter sets the data watch all the same.",
		edits: []edit{{
			in:  "Session.startPredecessor",
			old: `both := s.tellsZxids()`,
			new: `both := true`,
		}},
		test: "go test ./internal/zkconn -run ^TestPredecessor",
	},
	{
		name: "release-zxid-unseen",
		what: "A session that has acted upon an event is resumed by a server that is behind it.",
		edits: []edit{{
			in:  "Session.sawEvent",
			old: `s.seenZxid = max(s.seenZxid, zxid)`,
			new: `_ = zxid`,
		}},
		test: "go test ./internal/wire -run Zxid",
	},
	{
		name: "release-rearms-from-events",
		what: "Watches are armed again from the zxid of an event, so those of other events are lost.",
		edits: []edit{{
			in:  "Session.armedFrom",
			old: `return s.replyZxid`,
			new: `return s.seenZxid`,
		}},
		test: "go test ./internal/wire -run Zxid",
	},
}
