package main

// queueAckMutants are about settling items: acks and moves.
var queueAckMutants = []mutant{
	{
		name: "queue-ack-leaves-its-place",
		what: "The place that an ack has taken stays when its worker has left with the claim.",
		edits: []edit{{
			in:  "ackTransaction.run",
			old: `defer a.leaveNext()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestPlaceOfAnAck",
	},
	{
		name: "queue-ack-outlasts-claim",
		what: "Serve waits for an ack for as long as the session lives.",
		edits: []edit{{
			in:  "serving.finish",
			old: `if err = ack.run(settling); err == nil {`,
			new: `if err = ack.run(context.WithoutCancel(ctx)); err == nil {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestServeEndsWith",
	},
	{
		name: "queue-done-unexcluded",
		what: "An item that is done and cannot be deleted has a mark, but no exclusion: a consumer whose listing is old claims it.",
		edits: []edit{{
			in:  "claim.AckOps",
			old: `&zk.CreateRequest{Path: c.Exclusion(), Data: []byte("done"), Acl: acl},`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestItemWithAForeign",
	},
	{
		name: "queue-marks-miscounted",
		what: "An item that the servers miscount is marked as done at once, instead of deleted.",
		edits: []edit{{
			in:  "ackTransaction.notEmpty",
			old: `if a.miscounts++; err == nil && len(below) == 0 && a.miscounts <= maxMiscounts {`,
			new: `if a.miscounts++; err == nil && len(below) == 0 && a.miscounts <= 0 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestItemThatTheServersMiscountIsDeleted$",
	},
	{
		name: "queue-move-no-receipt",
		what: "AckPut leaves no receipt: if it is sent again, a claim that somebody has deleted is taken for a move that was done.",
		edits: []edit{{
			in:  "queue.Item.AckPut",
			old: `a.puts = &ackPuts{to: QueueIn(it.Claim.Session, to.Abs()).Log, path: to.Path, size: to.SegmentSize, items: items, once: true}`,
			new: `a.puts = &ackPuts{to: QueueIn(it.Claim.Session, to.Abs()).Log, path: to.Path, size: to.SegmentSize, items: items}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestAckOfAClaimThatWasDeletedIsLost$",
	},
	{
		name: "queue-move-one-segment",
		what: "A move is sent for one segment at a time.",
		edits: []edit{{
			in:  "ackParts.begin",
			old: `x.Or(other)`,
			new: `_ = other`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestADistantProducerGetsThroughAmongOthers$/AckPut",
	},
	{
		name: "queue-nonode-is-success",
		what: "The NoNode of the caller's own operation is taken for an ack that was carried out before.",
		edits: []edit{{
			in:  "ackTransaction.refused",
			old: `return false, false, a.failed(parts, o)`,
			new: `
				if o.RefusedIn(parts.ops, zk.ErrNoNode) {
					return true, false, nil
				}
				return false, false, a.failed(parts, o)`,
		}},
		test: "go test ./internal/sim -run Queue -seeds 400",
	},
	{
		name: "queue-sweeps-blindly",
		what: "What is left of a claim is deleted in the version that was read, whosoever it is by then.",
		edits: []edit{{
			in:  "claim.sweepExclusion",
			old: `wrote := c.Session.Multi(ctx, write)`,
			new: `wrote := zkconn.Failure(zk.ErrNoAuth)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestSweep",
	},
}
