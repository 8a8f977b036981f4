package main

// queueMutants are about queues: puts, claims, acks, dead letters and the bound.
var queueMutants = []mutant{
	{
		name: "queue-no-receipt",
		what: "A Put leaves no receipt: if it is sent again after a lost reply, it puts the item twice.",
		in:   "internal/queuelog",
		old:  `x := l.s.Retry(nil, slices.Concat([][]any{r.Write(what)}, parts)...)`,
		new:  `x := l.s.Retry(nil, slices.Concat(parts)...)`,
		test: "./internal/queue -run ^TestQueueUnderEachFaultAtEachRequest$/put_without_a_bound",
	},
	{
		name: "queue-put-in-sealed",
		what: "A Put does not check that its segment is not sealed.",
		in:   "internal/queuelog",
		old:  `a.Ops = append(a.Ops, &zk.CheckVersionRequest{Path: l.Segment(n), Version: 0})`,
		new:  `a.Ops = append(a.Ops, &zk.CheckVersionRequest{Path: l.Segment(n), Version: -1})`,
		test: "./internal/queue -run ^TestPutGoesOnBehindASegmentThatOthersSealed$",
	},
	{
		name: "queue-batch-wakes-nobody",
		what: "A PutAll that finds its segment full puts all its items into the next ones.",
		in:   "internal/queuelog",
		old:  `here := items[:min(max(size-creates, 1), int64(len(items)))]`,
		new:  `here := items[:min(max(size-creates, 0), int64(len(items)))]`,
		test: "./internal/queue -run ^TestBatchWakesTheConsumerThatSleepsOnAFullSegment$",
	},
	{
		name: "queue-believes-a-guess",
		what: "The segment that follows on a sealed one is believed by its number: the queue may have been made again.",
		in:   "internal/queuelog",
		old:  `l.known = append(l.known, segment{number: n + 1, guessed: true, czxid: stat.Mzxid})`,
		new:  `l.known = append(l.known, segment{number: n + 1, guessed: true, listed: 1<<63 - 1})`,
		test: "./internal/queue -run TestConsumerGoesOnWhatever",
	},
	{
		name: "queue-item-of-eleven-digits",
		what: "Items with the numbers behind the end of a segment's counter are not seen.",
		in:   "internal/queuelog",
		old:  `if len(name) != nameLength && (len(name) != nameLength+1 || name[IDLength] != '-') {`,
		new:  `if len(name) != nameLength {`,
		test: "./internal/queue -run ^TestItemsAreDeliveredBeyondTheEndOfASegmentsCounter$",
	},
	{
		name: "queue-claim-nameless",
		what: "A claim's flag is named after its item alone: a Nack that is sent again gives back the next consumer's claim.",
		in:   "internal/queue",
		old:  `path := item + "." + queuelog.NewMark()`,
		new:  `path := item + ".claim"`,
		test: "./internal/queue -run ^TestNackOfAQueuesItemWhoseReplyIsLostLeavesTheNextClaimAlone$",
	},
	{
		name: "queue-claim-shared",
		what: "A claim does not exclude others.",
		in:   "internal/queue",
		old:  `func (c *claim) Exclusion() string { return c.Item + queuelog.ClaimName }`,
		new:  `func (c *claim) Exclusion() string { return c.Item + queuelog.ClaimName + c.name }`,
		test: "./internal/queue -run ^TestTakeNClaimsNoItemThatIsClaimedWithoutAFlag$",
	},
	{
		name: "queue-watches-open",
		what: "The first consumer watches the open segment only and misses items that return to an older one.",
		in:   "internal/queue",
		old:  `s.watches = append(s.watches, seg)`,
		new:  `s.watches = append(s.watches[:0], seg)`,
		test: "./internal/queue -run ^TestTakesDoNotListSegmentsInWhichNothingIsFreeAgainAndAgain$",
	},
	{
		name: "queue-nonode-is-success",
		what: "The NoNode of the caller's own operation is taken for an ack that was carried out before.",
		in:   "internal/queue",
		old:  `case o.RefusedIn(parts.ops):`,
		new: `case o.RefusedIn(parts.ops, zk.ErrNoNode):
				return true, false, nil
			case o.RefusedIn(parts.ops):`,
		test: "./internal/queue -run ^TestCallersOperationThatFailsIsAnErrorAndNothingIsDone$",
	},
	{
		name: "queue-sweeps-blindly",
		what: "What is left of a claim is deleted in the version that was read, whosoever it is by then.",
		in:   "internal/queue",
		old:  `wrote := c.Session.Multi(ctx, write)`,
		new:  `wrote := zkconn.Failure(zk.ErrNoAuth)`,
		test: "./internal/queue -run ^TestSweep",
	},
	{
		name: "queue-done-unexcluded",
		what: "An item that is done and cannot be deleted has a mark, but no exclusion: a consumer whose listing is old claims it.",
		in:   "internal/queue",
		old:  `&zk.CreateRequest{Path: c.Exclusion(), Data: []byte("done"), Acl: acl},`,
		test: "./internal/queue -run TestItemWithAForeign",
	},
	{
		name: "queue-bury-not-atomic",
		what: "Bury removes the item, and then puts its dead letter.",
		in:   "internal/queue",
		old:  `err = to.putItems(ctx, []queuelog.Item{item}, r.ops(s)...)`,
		new: `if _, err = r.q.remove(ctx, s, []*removal{r}); err == nil {
					err = to.putItems(ctx, []queuelog.Item{item})
				}`,
		test: "./internal/queue -run ^TestQueueUnderEachFaultAtEachRequest$/burial_of_a_taken",
	},
	{
		name: "queue-bury-any-claim",
		what: "Bury ends the claim of a consumer that took the item after Bury had read the claim.",
		in:   "internal/queue",
		old:  `if o.flag.Path = r.flag; r.flag != "" {`,
		new:  `if o.flag.Path = r.flag; r.flag != "" && !r.taken {`,
		test: "./internal/queue -run ^TestBuryOfAnItemThatChangesHandsMeanwhile$",
	},
	{
		name: "queue-remove-claimed",
		what: "An item that a consumer has is removed, together with the claim.",
		in:   "internal/queue",
		old:  `r.stays = ErrItemTaken`,
		new: `err := s.Multi(ctx, &zk.DeleteRequest{Path: exclusion, Version: -1}).Err()
				return true, err`,
		test: "./internal/queue -run TestRemoveLeavesAnItem",
	},
	{
		name: "queue-count-not-told",
		what: "A producer with a bound is not woken by a segment that it has counted.",
		in:   "internal/queuelog",
		old:  `segments = append(segments, seg)`,
		test: "./internal/queue -run ^TestBoundedPutWaitsForCapacityAndHonoursItsContext$",
	},
}
