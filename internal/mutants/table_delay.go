package main

// delayMutants are about the lock delay.
var delayMutants = []mutant{
	{
		name:  "delay-not-waited",
		what:  "A place whose turn it is does not wait for the lock delay.",
		edits: []edit{{in: "Place.awaitDelay", old: `case left <= 0:`, new: `default:`}, {in: "Place.awaitDelay", old: `case !mayWait:`, new: `case false:`}},
		test:  delayTests,
	},
	{
		name:  "delay-own-name-unread",
		what:  "A place that has lost the reply to its write takes its own name for another's.",
		edits: []edit{{in: "Place.hold", old: `case string(data) == p.Name:`, new: `case false:`}},
		test:  delayTests,
	},
	{
		name:  "delay-left-by-a-waiter",
		what:  "A waiter that does not know whether it has written its name leaves without finding out.",
		edits: []edit{{in: "Place.leave", old: `if p.unsure {`, new: `if false {`}},
		test:  delayTests,
	},
	{
		name:  "delay-ended-by-a-loss",
		what:  "A lease that was lost is left like one that was released.",
		edits: []edit{{in: "Grant.abandon", old: `p.holds = p.holds && signal`}},
		test:  delayTests,
	},
	{
		name:  "delay-release-refused",
		what:  "A release whose znode somebody has deleted is not sent again without it.",
		edits: []edit{{in: "Place.RemoveWith", old: `if o.RefusedIn(held) {`, new: `if false {`}},
		test:  delayTests,
	},
	{
		name:  "delay-lost-in-a-new-line",
		what:  "A line whose numbers are used up begins anew without a delay.",
		edits: []edit{{in: "beyondLimit.deleteLine", old: `&zk.CreateRequest{Path: held, Data: wentAway, Acl: acl},`, new: ``}},
		test:  delayTests,
	},
}

const delayTests = "env ZK_HARNESS=zktest go test ./internal/line -run Delay"
