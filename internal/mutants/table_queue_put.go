package main

// queuePutMutants are about putting items: segments, receipts and the bound.
var queuePutMutants = []mutant{
	{
		name: "queue-abandons-the-rest",
		what: "A Put whose caller leaves looks at the outcome of its first attempt only.",
		edits: []edit{{
			in:  "Receipt.Abandon",
			old: `for _, t := range ts {`,
			new: `for _, t := range ts[:1] {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestDistantPutThatIsCanceledIsPutOnceAtMost$",
	},
	{
		name: "queue-attempts-one-by-one",
		what: "A Put tries one segment at a time.",
		edits: []edit{{
			in:  "firstWindow",
			old: `4`,
			new: `1`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestADistantProducerGetsThroughAmongOthers$",
	},
	{
		name: "queue-attempts-without-receipt",
		what: "Of the attempts that a Put sends together only the first one writes the receipt.",
		edits: []edit{{
			in:  "Log.Transact",
			old: `x.Or(written, other)`,
			new: `x.Or(other)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestDistantBatchesGetThrough$",
	},
	{
		name: "queue-batch-in-one-segment",
		what: "A PutAll of many items puts all of them into one segment.",
		edits: []edit{{
			in:  "Log.appendTo",
			old: `here := items[:min(max(size-creates, 1), int64(len(items)))]`,
			new: `here := items`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestItemsOfALargeBatchCostNoMoreThanOthers$",
	},
	{
		name: "queue-batch-wakes-nobody",
		what: "A PutAll that finds its segment full puts all its items into the next ones.",
		edits: []edit{{
			in:  "Log.appendTo",
			old: `here := items[:min(max(size-creates, 1), int64(len(items)))]`,
			new: `here := items[:min(max(size-creates, 0), int64(len(items)))]`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestBatchWakesTheConsumerThatSleepsOnAFullSegment$",
	},
	{
		name: "queue-believes-a-guess",
		what: "The segment that follows on a sealed one is believed by its number: the queue may have been made again.",
		edits: []edit{{
			in:  "Log.saw",
			old: `l.known = append(l.known, segment{number: n + 1, guessed: true, czxid: stat.Mzxid})`,
			new: `l.known = append(l.known, segment{number: n + 1, guessed: true, listed: 1<<63 - 1})`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestConsumerGoesOnWhatever",
	},
	{
		name: "queue-believes-a-listing",
		what: "A segment that was created after the listing is taken for the one that was listed.",
		edits: []edit{{
			in:  "Log.saw",
			old: `if seg.czxid == 0 && stat.Czxid <= seg.listed {`,
			new: `if seg.czxid == 0 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestSegmentCreatedAfter",
	},
	{
		name: "queue-count-not-told",
		what: "A producer with a bound is not woken by a segment that it has counted.",
		edits: []edit{{
			in:  "counter.add",
			old: `c.fired.Add(w)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestBoundedPutWaitsForCapacityAndHonoursItsContext$",
	},
	{
		name: "queue-count-overtaken",
		what: "A count leaves out a changed segment if the segments are forgotten meanwhile.",
		edits: []edit{{
			in:  "Log.countChanged",
			old: `return l.stillCounted()`,
			new: `return nil`,
		}},
		test: "go test ./internal/queuelog -run ^TestCountBeginsAnew",
	},
	{
		name: "queue-counts-changes-twice",
		what: "The count of a segment that has changed is added to the one before.",
		edits: []edit{{
			in:  "counter.update",
			old: `c.total -= seg.items`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestCountIsWhatAListingShows$",
	},
	{
		name: "queue-counts-everything",
		what: "A Put with a bound goes through all segments.",
		edits: []edit{{
			in:  "counter.update",
			old: `if c.lists != lists {`,
			new: `if c.lists != lists || true {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestBoundedPutCostsTheSameWhateverTheBacklog$",
	},
	{
		name: "queue-no-receipt",
		what: "A Put leaves no receipt: if it is sent again after a lost reply, it puts the item twice.",
		edits: []edit{{
			in:  "Log.Transact",
			old: `x := l.s.Retry(nil, written, alternatives[0])`,
			new: `x := l.s.Retry(nil, alternatives[0])`,
		}},
		test: "go test ./internal/sim -run Queue -seeds 400",
	},
	{
		name: "queue-put-in-sealed",
		what: "A Put does not check that its segment is not sealed.",
		edits: []edit{{
			in:  "Log.appendTo",
			old: `a.Ops = append(a.Ops, &zk.CheckVersionRequest{Path: l.Segment(n), Version: 0})`,
			new: `a.Ops = append(a.Ops, &zk.CheckVersionRequest{Path: l.Segment(n), Version: -1})`,
		}},
		test: "go test ./internal/sim -run Queue -seeds 400",
	},
	{
		name: "queue-quiet-seal",
		what: "The Put that seals a segment puts its item into the new one: a consumer that waits at the old one is not woken.",
		edits: []edit{{
			in: "Log.appendTo",
			old: `
				items = items[len(here):]
				seals := creates+int64(len(here)) >= size`,
			new: `
				quiet := creates > 0 && creates+int64(len(items)) >= size
				if quiet {
					here = nil
				}
				items = items[len(here):]
				seals := quiet || creates+int64(len(here)) >= size`,
		}},
		test: "go test ./internal/sim -run Queue -seeds 400",
	},
	{
		name: "queue-repairs-quietly",
		what: "A segment that is made behind one which an operator has sealed wakes nobody there.",
		edits: []edit{{
			in:  "Log.repair",
			old: `ops = append(ops, &zk.CreateRequest{Path: alarm, Acl: l.s.ACL()}, &zk.DeleteRequest{Path: alarm, Version: -1})`,
			new: `_ = alarm`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestConsumerGoesOnWhatever",
	},
	{
		name: "queue-repairs-the-open",
		what: "A segment is created behind the last one although that is open.",
		edits: []edit{{
			in:  "Log.repair",
			old: `if err != nil || sealed == 0 && n >= 0 { // it is open`,
			new: `if err != nil {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestConsumerOfADeletedQueue",
	},
	{
		name: "queue-repairs-what-was-filled",
		what: "A segment is made behind one that was sealed since it was listed as the last, although others have filled, emptied and deleted it.",
		edits: []edit{{
			in: "Log.lastAndItsSeal",
			old: `
				if last == n && sealed > 0 {
					return n, sealed, nil
				}`,
		}, {
			in: "Log.lastAndItsSeal",
			old: `
				if n, sealed = last, stat.Version; sealed == 0 {
					return n, 0, nil
				}`,
			new: `return last, stat.Version, nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestSegmentThatWasFilledAndEmptiedMeanwhileIsNotMadeAgain$",
	},
	{
		name: "queue-seal-is-one",
		what: "A sealed segment is deleted only if its version is 1, as long as nobody sets data on it.",
		edits: []edit{{
			in:  "Log.Delete",
			old: `version = stat.Version`,
			new: `version = 1`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestConsumerGoesOnWhatever",
	},
	{
		name: "queue-tries-all-receipts",
		what: "A receipt that was deleted is replaced alone, although all may have been deleted.",
		edits: []edit{{
			in:  "Receipt.Refused",
			old: `r.l.discardFree()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestCallsGoOnWhenAllReceiptsWereDeleted$",
	},
	{
		name: "room-first-free-only",
		what: "A producer that waits for capacity watches no segment behind the first free item.",
		edits: []edit{{
			in:  "counter.add",
			old: `c.fired.Add(w)`,
			new: `
				free := false
				for other, before := range c.counted {
					free = free || other < n && slices.ContainsFunc(Entries(before.Children), func(e Entry) bool { return !e.Claimed })
				}
				if !free {
					c.fired.Add(w)
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestBoundedProducerGoesOnWhatever",
	},
	{
		name: "room-overtakes-nothing",
		what: "A producer that overtakes sends nothing.",
		edits: []edit{{
			in:  "overtaking.overtake",
			old: `outcome := p.Session.Multi(ctx, ops...)`,
			new: `outcome := zkconn.Failure(nil)
				_ = ops`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestAPutThatIsOvertakenOnItsWayKeepsTheBound$",
	},
	{
		name: "room-overtakes-at-once",
		what: "A producer does not leave those ahead the time that they ask for.",
		edits: []edit{{
			in:  "overtaking.wait",
			old: `left > 0 {`,
			new: `left > patience {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestAProducerLeavesRoomToTheFirstForAGrace$",
	},
	{
		name: "room-counts-at-once",
		what: "A producer that waits counts the items whenever some are taken, although those ahead are about to use the room.",
		edits: []edit{{
			in:  "overtaking.wait",
			old: `case o.changed:`,
			new: `case false:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestAProducerLeavesRoomToTheFirstForAGrace$",
	},
	{
		name: "room-batch-wants-one",
		what: "A producer that waits overtakes a batch for which there is no room yet.",
		edits: []edit{{
			in:  "overtaking.wait",
			old: `count+ItemsOf(o.run[len(o.run)-1]) >`,
			new: `count+1 >`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestABatchThatWaitsForRoomIsNotOvertaken$",
	},
	{
		name: "room-overtakes-one",
		what: "A producer overtakes one session, not two.",
		edits: []edit{{
			in:  "maxOvertaken",
			old: `2`,
			new: `1`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestPutsGoOnAlthoughTwoProcessesAreDead$",
	},
	{
		name: "room-knows-no-session",
		what: "A producer takes the places of one session for those of several.",
		edits: []edit{{
			in:  "SessionOf",
			old: `if m.UUID == "" {`,
			new: `if true {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestPutsGoOnAlthoughAProcessWithSeveralPutsIsDead$",
	},
	{
		name: "room-farther-is-nearest",
		what: "A producer is the first although only one that is farther ahead has left.",
		edits: []edit{{
			in:  "overtaking.noteDepartures",
			old: `if i == 0 {`,
			new: `if i >= 0 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestAProducerWaitsForTheNearestAheadAlthoughOthersHavePut$",
	},
	{
		name: "room-asks-for-no-patience",
		what: "A producer that was overtaken asks for no more time.",
		edits: []edit{{
			in:  "AskForPatience",
			old: `level < maxLevel &&`,
			new: `level < 0 &&`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestADistantProducerIsNotOvertakenForEver$",
	},
	{
		name: "room-refused-fails",
		what: "A producer that may not delete the places ahead fails.",
		edits: []edit{{
			in:  "overtaking.overtake",
			old: `o.refused = true`,
			new: `return outcome.Err()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestAProducerThatMayNotOvertakeWaits$",
	},
	{
		name: "room-overtaken-is-evicted",
		what: "A producer that was overtaken returns ErrEvicted.",
		edits: []edit{{
			in:  "mayBeOvertaken",
			old: `return changed || !p.Own.ConfirmedOn(conn)`,
			new: `return changed && !changed && conn < 0`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestPutsGoOnAlthoughTheFirstProducerInLineIsDead$",
	},
	{
		name: "room-evicted-is-overtaken",
		what: "A producer whose place an operator deletes joins again.",
		edits: []edit{{
			in:  "mayBeOvertaken",
			old: `return changed || !p.Own.ConfirmedOn(conn)`,
			new: `return changed || conn >= 0`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestWaiterOfAQueueWhosePlaceIsDeletedIsEvicted$/room",
	},
	{
		name: "room-grants-no-patience",
		what: "A producer leaves each one ahead one grace, whatever it asks for.",
		edits: []edit{{
			in:  "overtaking.wait",
			old: `patience += PatienceOf(r.Parts)`,
			new: `patience += Grace
					_ = r`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestADistantProducerIsNotOvertakenForEver$",
	},
	{
		name: "room-counts-when-overtaken",
		what: "A producer that was overtaken goes on counting unfinished segments.",
		edits: []edit{{
			in:  "Queue.waitForCapacity",
			old: `err = p.WatchOwn(ctx)`,
			new: `err = nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -timeout 60s -run ^TestADistantProducerWithABoundGetsThrough$",
	},
}
