package main

// shardsMutants are about Shards. That a shard has one owner at a time is the Mutex's affair.
var shardsMutants = []mutant{
	{
		name: "shards-function-outlives-its-lease",
		what: "A function's context does not end when its shard is lost.",
		in:   ".",
		old:  `sv.f(s.lease.Context(ctx), s)`,
		new:  `sv.f(ctx, s)`,
		test: ". -run ^TestAFunctionThatFailsAfterItsShardWasLostIsCalledAfterAPause$",
	},
	{
		name: "shards-resized-beside-functions",
		what: "The number of shards changes while functions work on shards of the one before.",
		in:   ".",
		old:  `sv.drain(held)`,
		new:  `sv.letGoOfAll()`,
		test: ". -run ^TestShardsOfTwoNumbersAreNeverWorkedOnTogether$",
	},
	{
		name: "shards-id-of-another",
		what: "A process takes the member that has got its id for itself.",
		in:   ".",
		old:  `m.ID == sv.member.ID() && m.Session == s.ID()`,
		new:  `m.ID == sv.member.ID() && s != nil`,
		test: ". -run ^TestAProcessThatIsNotAmongTheMembersWarns$",
	},
}
