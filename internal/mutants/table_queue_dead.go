package main

// queueDeadMutants are about dead letters and removals.
var queueDeadMutants = []mutant{
	{
		name: "queue-bury-evicts",
		what: "A consumer whose claim was made, and buried before it is sent again, takes its place in the line to be there still.",
		edits: []edit{{
			in: "claimTransaction.whyNotCreated",
			old: `
				case repeated && o.Is(zk.ErrNoNode):
					return ErrLostAtOnce // the item may have been buried together with its claim`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestTakeGoesOnIfItsItemIsBuried",
	},
	{
		name: "queue-bury-any-claim",
		what: "Bury ends the claim of a consumer that has taken the item since Bury has read who has it.",
		edits: []edit{{
			in:  "removal.ops",
			old: `if o.flag.Path = r.flag; r.flag != "" {`,
			new: `if o.flag.Path = r.flag; r.flag != "" && !r.taken {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestBuryOfAnItemThatChangesHandsMeanwhile$",
	},
	{
		name: "queue-bury-beside-nobody",
		what: "Bury ends a claim of which somebody has deleted the flag, and with it perhaps the next one.",
		edits: []edit{{
			in: "removal.readClaim",
			old: `
				if err := awaitEnd(ctx, s, exclusion, stat.Czxid); err != nil {
					return "", err
				}`,
			new: `
				r.flag = ""
				return "", nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestBuryWaitsForTheRestOfAClaim$",
	},
	{
		name: "queue-bury-not-atomic",
		what: "Bury removes the item, and then puts its dead letter.",
		edits: []edit{{
			in:  "removal.move",
			old: `err = to.putItems(ctx, []queuelog.Item{item}, r.ops(s)...)`,
			new: `
				if _, err = r.q.remove(ctx, s, []*removal{r}); err == nil {
					err = to.putItems(ctx, []queuelog.Item{item})
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestQueueUnderEachFaultAtEachRequest$/burial_of_a_taken",
	},
	{
		name: "queue-bury-sent-twice",
		what: "Bury begins again if it is not known whether it was carried out, and says that the item was gone.",
		edits: []edit{{
			in: "removal.move",
			old: `
				if !errors.As(err, &refused) {`,
			new: `
				if errors.Is(err, errs.ErrUncertain) {
					continue
				}
				if !errors.As(err, &refused) {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestQueueUnderEachFaultAtEachRequest$/burial_of_a_taken",
	},
	{
		name: "queue-dead-letters-unused",
		what: "DeadLetters of a queue that has had none are not empty, but unused.",
		edits: []edit{{
			in:  "queue.Queue.DeadLetters",
			old: `letters.SegmentSize, letters.isDead = q.SegmentSize, true`,
			new: `letters.SegmentSize, letters.isDead = q.SegmentSize, false`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestUnusedPaths",
	},
	{
		name: "queue-failure-lost",
		what: "A worker whose handler fails for the last time gives the item back, and the reason is lost.",
		edits: []edit{{
			in:  "serving.finish",
			old: `s.moveFailed(settling, it, err)`,
			new: `s.release(it)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestDeadLetterTells",
	},
	{
		name: "queue-letter-as-changed",
		what: "A dead letter has the data that the handler has changed.",
		edits: []edit{{
			in:  "serving.moveFailed",
			old: `data, _, err := it.Claim.Session.Get(ctx, it.Claim.Item) // the handler may have changed the Item's Data`,
			new: `
				data := it.data
				_, _, err := it.Claim.Session.Get(ctx, it.Claim.Item)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestItemWhoseHandler",
	},
	{
		name: "queue-letters-uncounted",
		what: "Dead letters do not count when their producer's segment fills, so it is never sealed.",
		edits: []edit{{
			in:  "Append.Done",
			old: `number, ok := itemNumber(o.Created(a.last)[len(l.Segment(a.home))+1:])`,
			new: `
				number, ok := itemNumber(o.Created(a.last)[len(l.Segment(a.home))+1:])
				ok = ok && !HasNote(o.Created(a.last)[len(l.Segment(a.home))+1:])`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestMovesToTheDeadLettersFillSegments$",
	},
	{
		name: "queue-note-guessed",
		what: "An item's data are taken for a note if they look like one.",
		edits: []edit{{
			in: "CutNote",
			old: `
				if !queuelog.HasNote(name) {
					return data, f
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestDeadLettersWithout",
	},
	{
		name: "queue-purge-gives-up",
		what: "One item that is taken meanwhile keeps Purge from removing those beside it.",
		edits: []edit{{
			in: "Queue.remove",
			old: `
				rs = slices.Delete(rs, i, i+1)
				tries--`,
			new: `return 0, nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestPurgeLeavesOut",
	},
	{
		name: "queue-redrive-keeps-failure",
		what: "An item that is moved back keeps the note of the dead letter.",
		edits: []edit{{
			in:  "Queue.redriveOne",
			old: `data, failure := CutNote(name, data)`,
			new: `_, failure := CutNote(name, data)`,
		}, {
			in:  "Queue.redriveOne",
			old: `queuelog.Item{ID: name[:queuelog.IDLength], Data: data}`,
			new: `queuelog.Item{ID: name[:queuelog.IDLength], Data: data, Noted: queuelog.HasNote(name)}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestRedriveMoves",
	},
	{
		name: "queue-redrive-not-atomic",
		what: "Redrive puts the item first, and then removes its dead letter.",
		edits: []edit{{
			in:  "removal.move",
			old: `err = to.putItems(ctx, []queuelog.Item{item}, r.ops(s)...)`,
			new: `
				if err = to.putItems(ctx, []queuelog.Item{item}); err == nil {
					_, err = r.q.remove(ctx, s, []*removal{r})
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestQueueUnderEachFaultAtEachRequest$/redrive",
	},
	{
		name: "queue-redrive-of-others",
		what: "Redrive moves the dead letters of other queues, too.",
		edits: []edit{{
			in:  "Queue.redriveOne",
			old: `failure.Queue == q.Abs()`,
			new: `failure.Queue != ""`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestRedriveLeaves",
	},
	{
		name: "queue-removals-delete-open-segment",
		what: "A removal deletes the open segment once it is empty.",
		edits: []edit{{
			in:  "Queue.deleteEmptied",
			old: `if seg.stat.Version == 0 || removed < int(seg.stat.NumChildren) || !q.Client.Writes.Begin() {`,
			new: `if removed < int(seg.stat.NumChildren) || !q.Client.Writes.Begin() {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestRemovalsDeleteTheSegmentsThatTheyEmpty$",
	},
	{
		name: "queue-removals-leave-segments",
		what: "The segments that Purge, Remove and Redrive empty stay.",
		edits: []edit{{
			in:  "Queue.deleteEmptied",
			old: `if seg.stat.Version == 0 || removed < int(seg.stat.NumChildren) || !q.Client.Writes.Begin() {`,
			new: `if seg.stat.Version == 0 || seg.stat.NumChildren > 0 || !q.Client.Writes.Begin() {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestR.*DeletesTheSegmentsThatItEmpties$",
	},
	{
		name: "queue-remove-claimed",
		what: "An item that a consumer has is removed, together with the claim.",
		edits: []edit{{
			in:  "removal.whyTaken",
			old: `r.stays = ErrItemTaken`,
			new: `
				err := s.Multi(ctx, &zk.DeleteRequest{Path: exclusion, Version: -1}).Err()
				return true, err`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestRemoveLeavesAnItem",
	},
	{
		name: "queue-remove-forgets",
		what: "Remove takes an item for removed that was gone when its session had ended before the removal was sent.",
		edits: []edit{{
			in: "queue.Queue.Remove",
			old: `
				if err == nil {
					gone = r.stays`,
			new: `
				gone = r.stays
				if err == nil {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestRemoveOfAnItemThatIsAcked",
	},
	{
		name: "queue-unmoved-holds-up-shutdown",
		what: "An item that cannot be moved to the dead letters is kept while the process shuts down.",
		edits: []edit{{
			in:  "Queue.keepUnmoved",
			old: `case <-it.Handle.Context(q.Client.Waiting).Done():`,
			new: `case <-it.Handle.Context(context.Background()).Done():`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestShutdownDoesNotWaitForAnItemThatCannotBeMoved$",
	},
}
