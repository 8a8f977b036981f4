package main

// queueServeMutants are about Serve and its back-off.
var queueServeMutants = []mutant{
	{
		name: "queue-backoff-keeps-worker",
		what: "An item that failed keeps its worker for the back-off.",
		edits: []edit{{
			in:  "Queue.Serve",
			old: `parked:  make(chan struct{}, parkedPerWorker*q.opts.Workers),`,
			new: `parked:  make(chan struct{}, 0*q.opts.Workers),`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB81ItemsBehind",
	},
	{
		name: "queue-parked-item-lost",
		what: "An item that waits for its back-off is not given back at shutdown.",
		edits: []edit{{
			in: "serving.park",
			old: `
				select {
				case <-keep.C:
				case <-s.taken:`,
			new: `
				select {
				case <-keep.C:
				case <-s.taken:
					return`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestServeGivesTheItemBackAtOnce",
	},
	{
		name: "queue-parked-too-early",
		what: "Serve gives parked items back while a worker's take is under way.",
		edits: []edit{{
			in: "serving.endTakes",
			old: `
				for range cap(s.takes) {
					s.takes <- struct{}{}
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestServeGivesBackOnceItsTakesHaveEnded$",
	},
	{
		name: "queue-parks-without-bound",
		what: "Any number of items waits for its back-off.",
		edits: []edit{{
			in:  "Queue.Serve",
			old: `parked:  make(chan struct{}, parkedPerWorker*q.opts.Workers),`,
			new: `parked:  make(chan struct{}, 1<<20),`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB81WorkersWait",
	},
}
