package main

// delayMutants are about the lock delay.
var delayMutants = []mutant{
	{
		name: "delay-not-waited",
		what: "A place whose turn it is does not wait for the lock delay.",
		edits: []edit{{
			in:  "Line.InTurn",
			old: `if err := p.awaitDelay(ctx); err != nil {`,
			new: `if err := error(nil); err != nil {`,
		}},
		test: delayTests,
	},
	{
		name: "delay-newcomer-blind",
		what: "A newcomer does not look at how the last place has left.",
		edits: []edit{{
			in:  "Line.isCalm",
			old: `if l.Delay == 0 || line.Mzxid == line.Pzxid {`,
			new: `if true {`,
		}},
		test: delayTests,
	},
	{
		name: "delay-hidden-by-a-join",
		what: "Departures without a release are not counted: a later join hides them.",
		edits: []edit{{
			in:  "unreleased",
			old: `return line.Cversion - line.Version`,
			new: `return 0`,
		}},
		test: delayTests,
	},
	{
		name: "delay-hidden-by-uncounted-joins",
		what: "Departures are counted although the server counts creates no more.",
		edits: []edit{{
			in:  "Place.noteDepartures",
			old: ` || !calm && NextNumber(line) == math.MaxInt32`,
			new: `; _ = math.MaxInt32`,
		}},
		test: delayTests,
	},
	{
		name:  "delay-forgotten-by-trylock",
		what:  "TryLock has a line begin anew whatever has happened in it since it looked.",
		edits: []edit{{in: "lockedUnless", old: `len(ms) == 0 && calm`, new: `len(ms) == 0`}},
		test:  delayTests,
	},
	{
		name:  "delay-hidden-by-another-line",
		what:  "What was read of a line that has been deleted since counts for the new one.",
		edits: []edit{{in: "Place.readBefore", old: ` || stat.Czxid != p.LineCzxid`}},
		test:  delayTests,
	},
	{
		name: "delay-release-unwritten",
		what: "A release does not write the line's data, so it counts as none.",
		edits: []edit{{
			in:  "Place.releaseOps",
			old: `if p.Line.Delay == 0 {`,
			new: `if true {`,
		}},
		test: delayTests,
	},
	{
		name: "delay-ended-by-a-waiter",
		what: "A waiter that gives up in its delay writes the line's data, as a release does.",
		edits: []edit{{
			in:  "Place.Departure",
			old: `return Departure{Ops: []any{remove}}`,
			new: `return Departure{Ops: append([]any{remove}, p.releaseOps()...)}`,
		}},
		test: delayTests,
	},
	{
		name: "delay-of-a-signal",
		what: "A signal of the predecessor, which has released, does not end what was seen before it.",
		edits: []edit{{
			in:  "Place.awaitPredecessor",
			old: `p.delayed = false`,
			new: `p.delayed = true`,
		}},
		test: delayTests,
	},
	{
		name: "delay-try-waits-for-nothing",
		what: "TryLock takes a lock during its delay.",
		edits: []edit{{
			in:  "Line.isBlocked",
			old: `return !l.isCalm(stat), stat, nil`,
			new: `return false, stat, nil`,
		}, {
			in:  "Line.tryEnterIn",
			old: `if p.delayed {`,
			new: `if false {`,
		}},
		test: delayTests,
	},
	{
		name: "delay-try-forgets",
		what: "TryLock counts the delay anew at each call.",
		edits: []edit{{
			in:  "Line.isCalm",
			old: `if e.departed != line.Pzxid {`,
			new: `if true {`,
		}},
		test: delayTests,
	},
	{
		name: "delay-line-is-reaped",
		what: "The line of a lock with a delay is a container, which servers reap.",
		edits: []edit{{
			in:  "Line.create",
			old: `if l.Delay > 0 {`,
			new: `if false {`,
		}},
		test: delayTests,
	},
	{
		name: "delay-line-is-tidied",
		what: "The Client deletes the idle line of a lock with a delay.",
		edits: []edit{{
			in:  "Line.NoteWritten",
			old: `if bears.Seal != "" && l.Delay == 0 {`,
			new: `if bears.Seal != "" {`,
		}},
		test: delayTests,
	},
	{
		name: "delay-lost-in-a-new-line",
		what: "A line whose numbers are used up begins anew without a delay.",
		edits: []edit{{
			in:  "Line.rollOver",
			old: `case !waited:`,
			new: `case !waited && false:`,
		}},
		test: delayTests,
	},
	{
		name: "delay-not-watched",
		what: "A waiter in its delay does not notice that its place was deleted.",
		edits: []edit{{
			in:  "Place.awaitDelay",
			old: `if err := p.AwaitFired(ctx, over); err != nil {`,
			new: `if err := p.awaitEither(ctx, over, nil); err != nil {`,
		}},
		test: delayTests,
	},
}

const delayTests = "env ZK_HARNESS=zktest go test ./internal/line -run Delay"
