package main

// barrierOpenMutants are about the opening of a barrier's round, and how the members learn of it.
var barrierOpenMutants = []mutant{
	{
		name: "barrier-admits-early",
		what: "An open round admits an early arrival for the next round.",
		edits: []edit{{
			in:  "participant.sendJoin",
			old: `notOpen := &zk.CheckVersionRequest{Path: a.Ready(), Version: 0}`,
			new: `notOpen := &zk.CheckVersionRequest{Path: a.Ready(), Version: -1}`,
		}},
		test: "go test ./internal/sim -run ^TestBarrier -seeds 20",
	},
	{
		name: "barrier-another-ready",
		what: "The znode ready of another round is believed.",
		edits: []edit{{
			in: "participant.judge",
			old: `
				case stat.Czxid != p.LineCzxid:
					return 0, errNoRound`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestMemberOfAnExpired",
	},
	{
		name: "barrier-counts-other-sizes",
		what: "A member of a Barrier that waits for another n is counted.",
		edits: []edit{{
			in:  "participant.countable",
			old: `return line.IsBeyondLimit(a.Line.Client, m.Number) || size != 0 && size != a.N`,
			new: `return line.IsBeyondLimit(a.Line.Client, m.Number) || size < 0`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestMemberThatRemembers",
	},
	{
		name: "barrier-counts-ready",
		what: "The znode ready is counted as a member of a Barrier.",
		edits: []edit{{
			in:  "participant.complete",
			old: `if ms = a.countable(names); len(ms) < a.N {`,
			new: `if ms = a.countable(names); len(names) < a.N {`,
		}, {
			in:  "participant.complete",
			old: `return ms[:a.N], version, nil`,
			new: `return ms[:min(len(ms), a.N)], version, nil`,
		}, {
			in:  "participant.await",
			old: `if p.LineCount < 0 || p.LineCount-1 >= a.N {`,
			new: `if p.LineCount < 0 || p.LineCount >= a.N {`,
		}},
		test: "go test ./internal/sim -run ^TestBarrier -seeds 20",
	},
	{
		name: "barrier-duty-given-up",
		what: "A member that cannot open the round because another has left does not look again.",
		edits: []edit{{
			in: "participant.open",
			old: `
				if err := s.Sync(s.Lifetime(), a.Round.Abs()); err != nil {
					return nil, err
				}`,
			new: `return nil, nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestRoundOpensForTheOthers",
	},
	{
		name: "barrier-duty-lost-reply",
		what: "An opening whose reply was lost is taken as done.",
		edits: []edit{{
			in:  "participant.open",
			old: `case !o.Transient():`,
			new: `
				case o.Transient():
					return nil, nil
				case !o.Transient():`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestOpeningWhose",
	},
	{
		name: "barrier-event-rearmed",
		what: "A member believes the signal's event although a reconnect has set its watch again.",
		edits: []edit{{
			in: "isRaised",
			old: `
				conn, changed := w.ChildrenChanged()
				return changed && w.ConfirmedOn(conn)`,
			new: `
				_, changed := w.ChildrenChanged()
				return changed`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestMemberDoesNotBelieveTheSignalOfAnotherRound$",
	},
	{
		name: "barrier-nth-opens",
		what: "Only the nth member to join opens the round.",
		edits: []edit{{
			in:  "participant.await",
			old: `if p.LineCount < 0 || p.LineCount-1 >= a.N {`,
			new: `if p.LineCount < 0 || p.LineCount-1 == a.N {`,
		}},
		test: "go test ./internal/sim -run ^TestBarrier -seeds 200",
	},
	{
		name: "barrier-opens-for-any-n",
		what: "A round is opened without reading the n that the path holds.",
		edits: []edit{{
			in:  "participant.complete",
			old: `version, err = a.agreeOn(p.Session, reading)`,
			new: `_, version = reading, -1`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestMembersThatAllRemember",
	},
	{
		name: "barrier-opens-unchecked",
		what: "A round is opened without a check that its members still exist.",
		edits: []edit{{
			in:  "Barrier.checks",
			old: `ops = append(ops, &zk.CheckVersionRequest{Path: round + m.Name, Version: -1})`,
			new: `_ = round + m.Name`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestMemberThatDiesWhileAnother",
	},
	{
		name: "barrier-own-watch-spins",
		what: "A member whose own watch has fired does not set it again.",
		edits: []edit{{
			in: "participant.awaitWake",
			old: `
				case <-p.Own.Fired(): // which a search for the reply to the join may have set
					a.long = true`,
			new: `case <-p.Own.Fired(): // which a search for the reply to the join may have set`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestEvictedMemberWhoseJoin -timeout 30s",
	},
	{
		name: "barrier-remembers-size",
		what: "A Barrier in use never reads n again.",
		edits: []edit{{
			in:  "Barrier.knowsSize",
			old: `return time.Since(b.sizeChecked) < line.IdleLine`,
			new: `
				known := time.Since(b.sizeChecked) < line.IdleLine
				if known {
					b.sizeChecked = time.Now()
				}
				return known`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestBarrierInUse",
	},
	{
		name: "barrier-signal-any-n",
		what: "The signal is for members of any n.",
		edits: []edit{{
			in:  "Barrier.signal",
			old: `return b.Ready() + "/" + signalOf + strconv.Itoa(b.N)`,
			new: `return b.Ready() + "/" + signalOf + strconv.Itoa(0*b.N)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestMembersOfAnotherNDoNotBelieveTheSignal$",
	},
	{
		name: "barrier-signal-holes",
		what: "The signal is raised although a member has left before the opening.",
		edits: []edit{{
			in:  "allThere",
			old: `if int(m.Number) != i+1 {`,
			new: `if int(m.Number) < i+1 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestMembersOfARoundWithHoles",
	},
	{
		name: "barrier-signal-left",
		what: "An opener for whose n there is no signal leaves those of others as they are.",
		edits: []edit{{
			in:  "participant.signalOpening",
			old: `ops, _, err = a.deleteSignals(s.Lifetime(), s)`,
			new: `_, _, err = a.deleteSignals(s.Lifetime(), s)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestMember.*(AnotherN|NamesBoth|NIsAnother)",
	},
	{
		name: "barrier-signal-of-another-round",
		what: "A member believes the signal of another round.",
		edits: []edit{{
			in:  "participant.watchSignal",
			old: `case w.Stat.Czxid != p.LineCzxid, len(w.Children) > 0 && !slices.Contains(w.Children, signalOpen):`,
			new: `case len(w.Children) > 0 && !slices.Contains(w.Children, signalOpen):`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run ^TestMemberThatWatchesALaterRoundsSignalDoesNotBelieveIt$",
	},
	{
		name: "barrier-signal-surplus",
		what: "A member whose number is beyond n believes the signal.",
		edits: []edit{{
			in: "participant.watchSignal",
			old: `
				if int(p.Number) > a.N {
					return nil, nil
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test . ./internal/barrier -run Surplus",
	},
	{
		name: "barrier-size-unchecked",
		what: "A round is opened although the n of the path has changed since it was read.",
		edits: []edit{{
			in:  "Barrier.checks",
			old: `ops := []any{&zk.CheckVersionRequest{Path: b.Line.Abs(), Version: version}}`,
			new: `ops := []any{&zk.CheckVersionRequest{Path: b.Line.Abs(), Version: -1}}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestRoundIsNotOpened",
	},
}
