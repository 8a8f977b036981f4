package main

// shardsMutants are about Shards. That a shard has one owner at a time is the Mutex's affair.
var shardsMutants = []mutant{
	{
		name: "shards-given-at-once",
		what: "A process that stays gives shards to a newcomer before the members have settled.",
		in:   ".",
		old:  `w.leaves.IsZero() && (settled || w.lease == nil)`,
		new:  `w.leaves.IsZero() && (settled || w.lease == nil || len(members) > 0)`,
		test: ". -run ^TestShardsAreSharedOutEvenlyAndFewMove$",
	},
	{
		name: "shards-never-settled",
		what: "While others come and go, no shard is given to anybody.",
		in:   ".",
		old:  `first.Add(maxSettles*sv.opts.Settle)`,
		new:  `first.Add(time.Hour)`,
		test: ". -run ^TestAProcessGetsItsShareThoughAnotherComesAndGoesAllTheTime$",
	},
	{
		name: "shards-function-outlives-its-lease",
		what: "A function's context does not end when its shard is lost.",
		in:   ".",
		old:  `sv.f(l.Context(ctx), &Shard{l, w.number, n})`,
		new:  `sv.f(ctx, &Shard{l, w.number, n})`,
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
	{
		name: "shards-plan-forgets-owners",
		what: "A plan moves shards between members that stay.",
		in:   "internal/shards",
		old:  `if room[i] > 0 && shard < n && owner[shard] < 0 {`,
		new:  `if room[i] < 0 {`,
		test: "./internal/shards -run ^TestAPlanIsEvenAndMovesTheLeastThatItCan$",
	},
}
