package main

// watchMutants are about watches, and what elections' observers share with them.
var watchMutants = []mutant{
	{
		name: "watch-any-event",
		what: "An event after which nothing has changed is yielded.",
		edits: []edit{{
			in:  "Follower.note",
			old: `return !last.told || f.gone != last.gone || !f.gone && f.zxid != last.zxid`,
			new: `return !last.told || f.gone != last.gone || f.zxid <= last.zxid || f.zxid > last.zxid`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/watch -run ^TestSpuriousEventsYieldNothing$",
	},
	{
		name: "watch-goes-back",
		what: "A state is yielded that is older than one before.",
		edits: []edit{{
			in:  "Follower.isOld",
			old: `return zxid < f.zxid || f.gone && zxid == f.zxid`,
			new: `return f.gone && zxid == f.zxid`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/watch -run ^TestWatchFailsWhereTheServersTellOfEarlierStatesOnly$",
	},
	{
		name: "watch-never-none",
		what: "That there is no znode any more is not yielded.",
		edits: []edit{{
			in:  "Follower.note",
			old: `return !last.told || f.gone != last.gone || !f.gone && f.zxid != last.zxid`,
			new: `return !last.told || f.zxid != last.zxid`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/watch -run ^TestWatchYieldsEachStateAndNone$",
	},
	{
		name: "watch-remembers-lost",
		what: "A znode that is gone since the servers have lost transactions is compared with what came after.",
		edits: []edit{{
			in:  "Follower.note",
			old: `case history > last.history:`,
			new: `case history < last.history:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/watch -run ^TestWatchYieldsWhatIsCreatedOnServersThatWereRestoredWithoutTheZnode$",
	},
	{
		name: "watch-no-sync",
		what: "A watch begins without a sync.",
		edits: []edit{{
			in:  "Follower.Begin",
			old: `return s.Sync(ctx, f.Path)`,
			new: `return nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/watch -run ^TestWatchBeginsWithASync$",
	},
	{
		name: "watch-two-reads",
		what: "A change is read by a request of its own before the one that sets the next watch.",
		edits: []edit{{
			in:  "Follower.Next",
			old: `now, w, err = f.look(ctx, s, exists)`,
			new: `now, w, err = f.look(ctx, s, false && exists)`,
		}},
		test: "go test ./internal/costs -run ^TestCosts$/^Reads",
	},
	{
		name: "watch-yields-shared-memory",
		what: "What a watch yields shares memory with what others get.",
		edits: []edit{{
			in:  "Client.Watch",
			old: `return Node{slices.Clone(s.Data), ownStat(s)}`,
			new: `
				_ = slices.Clone(s.Data)
				return Node{s.Data, ownStat(s)}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/watch -run ^TestWatchYieldsTheStatAndMemoryOfTheCallersOwn$",
	},
}
