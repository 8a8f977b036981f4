package main

// queueServeMutants are about Serve and its back-off.
var queueServeMutants = []mutant{
	{
		name: "queue-backoff-keeps-worker",
		what: "An item that failed keeps its worker for the back-off.",
		edits: []edit{{
			in:  "serving.park",
			old: `s.failures.Add(1) > int64(ParkedPerWorker*s.Opts.Workers) {`,
			new: `s.failures.Add(1) > 0 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestItemsBehind",
	},
	{
		name: "queue-overrun-frees-worker",
		what: "A worker whose handler does not return takes the next item.",
		edits: []edit{{
			in:  "serving.overrun",
			old: `err := <-result`,
			new: `err := error(nil)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestServeTakesNothingWhileNoHandlerReturns$",
	},
	{
		name: "queue-parked-item-lost",
		what: "An item that waits for its back-off is not given back at shutdown.",
		edits: []edit{{
			in:  "serving.park",
			old: `case <-s.taken:`,
			new: `
				case <-s.taken:
					<-claimed.Done()`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestServeGivesTheItemBackAtOnce",
	},
	{
		name: "queue-parks-without-bound",
		what: "Any number of items waits for its back-off.",
		edits: []edit{{
			in:  "serving.park",
			old: `s.failures.Add(1) > int64(ParkedPerWorker*s.Opts.Workers) {`,
			new: `s.failures.Add(1) > 1<<20 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestFewItemsAreParked",
	},
	{
		name: "queue-parks-thousands",
		what: "Back-offs do not shorten as more items are parked.",
		edits: []edit{{
			in:  "serving.park",
			old: `d -= d / (MaxParked / 2) * time.Duration(many)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run ^TestParkedItemsAreBounded$",
	},
}
