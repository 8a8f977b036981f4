package main

// telemetryMutants are about what zkotel and zkprom export.
var telemetryMutants = []mutant{
	{
		name: "shows-ended-holds",
		what: "A hold whose end was dropped is shown for ever.",
		edits: []edit{{
			in:  "Meter.noteDropped",
			old: `m.holds.forget(func(h zkrecipes.Hold) bool { return !h.Ongoing() })`,
		}},
		test: "go test ./internal/telemetry -run TestWhatEndsWithoutAWord",
	},
	{
		name: "shows-ended-waits",
		what: "A wait whose end was dropped is shown for ever.",
		edits: []edit{{
			in:  "Meter.noteDropped",
			old: `m.waits.forget(func(w *wait) bool { return !w.began.After(before) })`,
		}},
		test: "go test ./internal/telemetry -run TestWhatEndsWithoutAWord",
	},
	{
		name: "shows-old-queue",
		what: "The figures of a queue stay while its poll gets no answer.",
		edits: []edit{{
			in: "Meter.PollQueue",
			old: `case errors.Is(err, context.DeadlineExceeded):
				m.noAnswer(own)`,
			new: `case errors.Is(err, context.DeadlineExceeded):`,
		}},
		test: "go test ./internal/telemetry -run TestAQueueIsNotShown",
	},
	{
		name: "counts-new-sessions",
		what: "A new session counts as a reconnect.",
		edits: []edit{{
			in:  "session.changed",
			old: `&& e.ID == s.last.ID`,
		}},
		test: "go test ./internal/telemetry -run TestTheSessionIsFollowed",
	},
}
