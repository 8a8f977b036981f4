package main

// queueTakeMutants are about taking items: turns and claims.
var queueTakeMutants = []mutant{
	{
		name: "queue-ahead-every-ack",
		what: "Each ack of a batch reads ahead.",
		edits: []edit{{
			in: "Queue.takesSoon",
			old: `
				if queue.Held.Load() > 1 {
					return 0, false
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/costs -run TestCosts/eight_times_TakeN",
	},
	{
		name: "queue-ahead-late-taker",
		what: "An ack takes a place along for a taker that comes much later.",
		edits: []edit{{
			in:  "takerPool.noteTaker",
			old: `t.Soon, t.acked = time.Since(t.acked) <= t.tookAck, time.Time{}`,
			new: `t.Soon, t.acked = time.Since(t.acked) <= Soon, time.Time{}`,
		}, {
			in:  "Queue.takesSoon",
			old: `return max(time.Millisecond, 2*t.tookAck), true`,
			new: `return Soon, true`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestConsumerThatPausesAfterItsAcks",
	},
	{
		name: "queue-ahead-line-unchecked",
		what: "A consumer without a place does not check that nobody has joined the line.",
		edits: []edit{{
			in:  "takerPool.takeUnlessJoined",
			old: `done, err = t.claimFor(t.ctx, scan, items, nil, check)`,
			new: `done, err = t.claimFor(t.ctx, scan, items, nil, nil)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/costs -run TestCosts/the_line_has_changed",
	},
	{
		name: "queue-ahead-place-stays",
		what: "A place that an ack took along waits for a taker for ever.",
		edits: []edit{{
			in:  "takerPool.noteChange",
			old: `d = t.keep`,
			new: `d = time.Hour`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestPlaceThatAnAckTookAlong",
	},
	{
		name: "queue-attempt-lost",
		what: "An attempt whose reply is lost is taken for one that failed, as another sent with it did.",
		edits: []edit{{
			in:  "Retry.outcome",
			old: `if unknown != nil {`,
			new: `if unknown != nil && !failed.Refused() {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestDistantPutWhoseReplyIsLostMakesOneItem$",
	},
	{
		name: "queue-attempts-foreign",
		what: "Znodes that others create below an item count as attempts.",
		edits: []edit{{
			in:  "Claims",
			old: `Creates(stat)-foreign-int64(stat.Version)`,
			new: `Creates(stat)-int64(stat.Version)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestForeignZnodesBelow",
	},
	{
		name: "queue-batch-claims-taken",
		what: "A consumer that claims several items takes one that somebody else has, if it is not the first.",
		edits: []edit{{
			in: "claimTransaction.run",
			old: `
				for signal := true; ; signal = false {
					parts := a.parts(signal)`,
			new: `
				var u *unclaimable
				for signal := true; ; signal = false {
					parts := a.parts(signal)
					if u != nil {
						isTaken := func(op any) bool { return op.(*zk.CreateRequest).Path == u.item+queuelog.ClaimName }
						parts.creates = slices.DeleteFunc(parts.creates, isTaken)
					}`,
			imports: []string{"slices"},
		}, {
			in:  "claimTransaction.run",
			old: `} else if err := a.whyRefused(ctx, parts, x, o); err != nil {`,
			new: `
				} else if err := a.whyRefused(ctx, parts, x, o); errors.As(err, &u) && u.taken && u.item != a.claims[0].Item {
					continue
				} else if err != nil {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestTakeNClaimsNoItemThatIsClaimedWithoutAFlag$",
	},
	{
		name: "queue-claim-nameless",
		what: "A claim's flag is named after its item alone: a Nack that is sent again gives back the next consumer's claim.",
		edits: []edit{{
			in:  "Queue.NewClaim",
			old: `path := item + "." + queuelog.NewMark()`,
			new: `path := item + ".claim"`,
		}},
		test: "go test ./internal/sim -run Queue -seeds 400",
	},
	{
		name: "queue-claim-of-nothing",
		what: "A claim does not check that its item exists.",
		edits: []edit{{
			in: "claimTransaction.run",
			old: `
				for signal := true; ; signal = false {
					parts := a.parts(signal)`,
			new: `
				var u *unclaimable
				for signal := true; ; signal = false {
					parts := a.parts(signal)
					if u != nil {
						parts.creates = parts.creates[:1]
					}`,
		}, {
			in:  "claimTransaction.run",
			old: `} else if err := a.whyRefused(ctx, parts, x, o); err != nil {`,
			new: `
				} else if err := a.whyRefused(ctx, parts, x, o); len(a.claims) == 1 && errors.As(err, &u) && !u.taken {
					continue
				} else if err != nil {`,
		}, {
			in: "Queue.claimed",
			old: `
				if errors.Is(err, zk.ErrNoNode) { // an operator was quick
					return nil, ErrLostAtOnce`,
			new: `
				if errors.Is(err, zk.ErrNoNode) { // an operator was quick
					stat, err = &zk.Stat{}, nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestItemThatIsDeleted",
	},
	{
		name: "queue-claim-shared",
		what: "A claim does not exclude others: a consumer that finds the item claimed claims it too.",
		edits: []edit{{
			in: "claimTransaction.run",
			old: `
				for signal := true; ; signal = false {
					parts := a.parts(signal)`,
			new: `
				var u *unclaimable
				for signal := true; ; signal = false {
					parts := a.parts(signal)
					if u != nil {
						parts.creates = parts.creates[:1]
					}`,
		}, {
			in:  "claimTransaction.run",
			old: `} else if err := a.whyRefused(ctx, parts, x, o); err != nil {`,
			new: `
				} else if err := a.whyRefused(ctx, parts, x, o); len(a.claims) == 1 && errors.As(err, &u) && u.taken {
					continue
				} else if err != nil {`,
		}},
		test: "go test ./internal/sim -run Queue -seeds 400",
	},
	{
		name: "queue-item-of-eleven-digits",
		what: "Items with the numbers behind the end of a segment's counter are not seen.",
		edits: []edit{{
			in:  "itemNumber",
			old: `if len(name) != nameLength && (len(name) != nameLength+1 || name[IDLength] != '-') {`,
			new: `if len(name) != nameLength {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestItemsAreDeliveredBeyondTheEndOfASegmentsCounter$",
	},
	{
		name: "queue-second-claims-nothing",
		what: "The second in line claims nothing, so a dead consumer at the head stops deliveries.",
		edits: []edit{{
			in:  "lineWait.looks",
			old: `return w.p.First || w.armed && w.ahead > 0 && w.ahead < Lookers`,
			new: `return w.p.First`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestDeliveriesGoOnWhenTheConsumerWithTheTurnDies$",
	},
	{
		name: "queue-second-without-grace",
		what: "The second in line claims a free item at once.",
		edits: []edit{{
			in:  "lineWait.mayClaim",
			old: `return time.Since(w.seen) >= w.graces()`,
			new: `return true`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestSecondInLineLeavesItemsToTheFirstForAGrace$",
	},
	{
		name: "queue-spares-nothing",
		what: "What was claimed for a call that had ended by then is given back although another one waits.",
		edits: []edit{{
			in:  "takerPool.hand",
			old: `t.spare = append(t.spare, k.items...)`,
			new: `giveBack(k.items...)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestAnItemThatWasClaimedForACallThatHasEndedIsTheNextOnes$",
	},
	{
		name: "queue-takes-what-it-left",
		what: "A call that has left its items to others looks for them once more.",
		edits: []edit{{
			in:  "Queue.takeN",
			old: `if !t.quit(k) {`,
			new: `if t.quit(k); !k.served() {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestATakeThatEndsAsItsClaimIsAnswered",
	},
	{
		name: "queue-takes-no-watch",
		what: "A consumer that finds nothing sets no watch.",
		edits: []edit{{
			in:  "scanner.freeNow",
			old: `return s.scan(ctx, 0, enough, most, true)`,
			new: `return s.scan(ctx, 0, enough, most, false)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestPutWakesTwoOf200",
	},
	{
		name: "queue-unreadable-stops",
		what: "A znode in a claim's place that may not be read stops all consumers.",
		edits: []edit{{
			in: "scanner.taken",
			old: `
				if errors.Is(err, zk.ErrNoAuth) { // somebody else's; the item's children tell when it goes
					w, err = s.s.WatchChildren(ctx, item)
					if err == nil && !slices.Contains(w.Children, queuelog.ClaimName[1:]) {
						return nil
					}
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestUnreadable",
	},
	{
		name: "queue-unseen-counts",
		what: "A claim for a call that had ended by then counts as an attempt.",
		edits: []edit{{
			in:  "claim.unseenOps",
			old: `return []any{&zk.SetDataRequest{Path: c.Item, Data: data, Version: stat.Version}}`,
			new: `_, _ = data, stat
				return nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestAnItemThatWasClaimedForNobodyIsGivenBackAndThatIsNoAttempt$",
	},
	{
		name: "queue-watches-open",
		what: "The first consumer watches the open segment only and misses items that return to an older one.",
		edits: []edit{{
			in:  "scanner.scan",
			old: `case segment.Watch != nil:`,
			new: `case segment.Watch != nil && !segment.IsSealed():`,
		}},
		test: "go test ./internal/sim -run Queue -seeds 400",
	},
	{
		name: "queue-third-claims-nothing",
		what: "Only the first two in line look for items.",
		edits: []edit{{
			in:  "lineWait.looks",
			old: `w.ahead < Lookers`,
			new: `w.ahead < 2`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestDeliveriesGoOnWhenSeveralAtTheHeadAreDead$",
	},
	{
		name: "queue-far-place-unwatched",
		what: "A consumer that is far behind does not notice that it has come near enough to look.",
		edits: []edit{{
			in:  "lineWait.watchAhead",
			old: `n = len(w.nearest)`,
			new: `n = 2`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestTwoDeadHoldUpNobodyThatHasWaitedInALongLine$",
	},
	{
		name: "queue-nothing-rests",
		what: "Each take lists the segments again in which nothing is free.",
		edits: []edit{{
			in:  "scanner.scan",
			old: `if rests {`,
			new: `if rests && false {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestTakesDoNotListSegmentsInWhichNothingIsFreeAgainAndAgain$",
	},
	{
		name: "queue-all-take-turns",
		what: "Consumers take turns however many items there are.",
		edits: []edit{{
			in:  "takerPool.takeAlone",
			old: `case hints.areOthers() && !hints.ample.Load():`,
			new: `case hints.areOthers():`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestConsumersOfOneWorkerDoNotWaitForEachOther$",
	},
	{
		name: "queue-all-want-the-first",
		what: "Consumers that do not take turns all claim the first item.",
		edits: []edit{{
			in:  "queueHints.choose",
			old: `return rand.IntN(min(n, t.width()) + 1)`,
			new: `return 0`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestConsumersOfOneWorkerDoNotWaitForEachOther$",
	},
}
