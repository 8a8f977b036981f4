package main

// barrierOpenMutants are about the opening of a barrier's round, and how the members learn of it.
var barrierOpenMutants = []mutant{
	{
		name: "barrier-admits-early",
		what: "An open round admits an early arrival for the next round.",
		edits: []edit{{
			in:  "participant.sendJoin",
			old: `notOpen, mark := &zk.CheckVersionRequest{Path: a.ready(), Version: 0}, member.mark`,
			new: `notOpen, mark := &zk.CheckVersionRequest{Path: a.ready(), Version: -1}, member.mark`,
		}},
		test: "go test ./internal/sim -run ^TestBarrier -seeds 20",
	},
	{
		name: "barrier-another-ready",
		what: "The znode ready of another round is believed.",
		edits: []edit{{
			in: "participant.judge",
			old: `
				case stat.Czxid != p.lineCzxid:
					return 0, errNoRound`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB11MemberOfAnExpired",
	},
	{
		name: "barrier-counts-other-sizes",
		what: "A member of a Barrier that waits for another n is counted.",
		edits: []edit{{
			in:  "participant.countable",
			old: `return m.number < 0 || m.number > a.line.c.lastNumber || size != 0 && size != a.n`,
			new: `return m.number < 0 || m.number > a.line.c.lastNumber || size < 0`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB78MemberThatRemembers",
	},
	{
		name: "barrier-counts-ready",
		what: "The znode ready is counted as a member of a Barrier.",
		edits: []edit{{
			in:  "participant.open",
			old: `if len(ms) < a.n {`,
			new: `if len(names) < a.n {`,
		}, {
			in:  "participant.open",
			old: `o.admit(ms[:a.n])`,
			new: `o.admit(ms[:min(len(ms), a.n)])`,
		}, {
			in:  "participant.await",
			old: `if p.lineCount < 0 || p.lineCount-1 >= a.n {`,
			new: `if p.lineCount < 0 || p.lineCount >= a.n {`,
		}},
		test: "go test ./internal/sim -run ^TestBarrier -seeds 20",
	},
	{
		name: "barrier-duty-given-up",
		what: "A member that cannot open the round because another has left does not look again.",
		edits: []edit{{
			in: "participant.open",
			old: `
				if err := s.Sync(s.Lifetime(), a.round.abs()); err != nil {
					return nil, err
				}`,
			new: `return nil, nil`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB45RoundOpensForTheOthers",
	},
	{
		name: "barrier-duty-lost-reply",
		what: "An opening whose reply was lost is taken as done.",
		edits: []edit{{
			in:  "participant.open",
			old: `case !zkconn.Transient(err):`,
			new: `
				case zkconn.Transient(err):
					return nil, nil
				case !zkconn.Transient(err):`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB45OpeningWhose",
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
		test: "env ZK_HARNESS=zktest go test . -run ^TestB23MemberDoesNotBelieveTheSignalOfAnotherRound$",
	},
	{
		name: "barrier-found-and-watched",
		what: "The last member to come, whose reply was lost, is believed only if its znode can be read.",
		edits: []edit{{
			in:  "line.findLostJoin",
			old: `if e.served {`,
			new: `if e.served && false {`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestB01LastMemberThatIsFound",
	},
	{
		name: "barrier-last-counts-strangers",
		what: "The last member to come counts those that wait for another n.",
		edits: []edit{{
			in:  "participant.callRoll",
			old: `if len(ms) != a.n-1 || a.line.c.isBeyondLimit(number) {`,
			new: `if a.line.c.isBeyondLimit(number) {`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestB78LastMemberDoesNotCount",
	},
	{
		name: "barrier-last-of-open-round",
		what: "One that comes while a round is left takes itself for the last of it.",
		edits: []edit{{
			in:  "participant.callRoll",
			old: `if joins := number - 1; round.Version != joins {`,
			new: `if joins := number - 1; round.Version < joins {`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestA22OneThatComesWhile",
	},
	{
		name: "barrier-last-old-path",
		what: "The last member to come believes an n that was read before it saw who is there.",
		edits: []edit{{
			in: "Session.StartChildrenAndGet",
			old: `
				first, second := nc.CallBoth(jute.OpGetChildren2, list, jute.OpGetData, get, nil)
				return &Reading{first}, &Reading{second}, nil`,
			new: `
				first, second := nc.CallBoth(jute.OpGetData, get, jute.OpGetChildren2, list, nil)
				return &Reading{second}, &Reading{first}, nil`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestB78LastMemberDoesNotBelieve",
	},
	{
		name: "barrier-last-unchecked",
		what: "The last member to come does not check that those it has seen are still there.",
		edits: []edit{{
			in:  "participant.callRoll",
			old: `o.admit(append(ms, placeName{name: fmt.Sprintf("%s%010d", join, number), number: number}))`,
			new: `
				o.admit(append(ms, placeName{name: fmt.Sprintf("%s%010d", join, number), number: number}))
				o.members = nil`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestB45LastMember",
	},
	{
		name: "barrier-nth-opens",
		what: "Only the nth member to join opens the round.",
		edits: []edit{{
			in:  "participant.await",
			old: `if p.lineCount < 0 || p.lineCount-1 >= a.n {`,
			new: `if p.lineCount < 0 || p.lineCount-1 == a.n {`,
		}},
		test: "go test ./internal/sim -run ^TestBarrier -seeds 200",
	},
	{
		name: "barrier-opens-for-any-n",
		what: "A round is opened without reading the n that the path holds.",
		edits: []edit{{
			in:  "participant.open",
			old: `version, err = a.agreeOn(s, reading)`,
			new: `_, version = reading, -1`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB78MembersThatAllRemember",
	},
	{
		name: "barrier-opens-unchecked",
		what: "A round is opened without a check that its members still exist.",
		edits: []edit{{
			in:  "opening.admit",
			old: `o.members = o.checks(ms)`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB45MemberThatDiesWhileAnother",
	},
	{
		name: "barrier-own-watch-spins",
		what: "A member whose own watch has fired does not set it again.",
		edits: []edit{{
			in: "participant.awaitWake",
			old: `
				case <-p.own.Fired(): // which a search for the reply to the join may have set
					a.long = true`,
			new: `case <-p.own.Fired(): // which a search for the reply to the join may have set`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestB22EvictedMemberWhoseJoin -timeout 30s",
	},
	{
		name: "barrier-remembers-size",
		what: "A Barrier in use never reads n again.",
		edits: []edit{{
			in:  "Barrier.knowsSize",
			old: `return time.Since(b.sizeChecked) < idleLine`,
			new: `
				known := time.Since(b.sizeChecked) < idleLine
				if known {
					b.sizeChecked = time.Now()
				}
				return known`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB78BarrierInUse",
	},
	{
		name: "barrier-signal-any-n",
		what: "The signal is for members of any n.",
		edits: []edit{{
			in:  "Barrier.signal",
			old: `return b.ready() + "/" + signalOf + strconv.Itoa(b.n)`,
			new: `return b.ready() + "/" + signalOf + strconv.Itoa(0*b.n)`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestB78MembersOfAnotherNDoNotBelieveTheSignal$",
	},
	{
		name: "barrier-signal-holes",
		what: "The signal is raised although a member has left before the opening.",
		edits: []edit{{
			in:  "allThere",
			old: `if int(m.number) != i+1 {`,
			new: `if int(m.number) < i+1 {`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestA22MembersOfARoundWithHoles",
	},
	{
		name: "barrier-signal-left",
		what: "An opener for whose n there is no signal leaves those of others as they are.",
		edits: []edit{{
			in:  "opening.deleteSignals",
			old: `o.signal, _, err = o.participant.deleteSignals(s.Lifetime(), s)`,
			new: `
				o.signal = nil
				_, _, err = o.participant.deleteSignals(s.Lifetime(), s)`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestB78Member",
	},
	{
		name: "barrier-signal-of-another-round",
		what: "A member believes the signal of another round.",
		edits: []edit{{
			in:  "participant.watchSignal",
			old: `case w.Stat.Czxid != p.lineCzxid, len(w.Children) > 0 && !slices.Contains(w.Children, signalOpen):`,
			new: `case len(w.Children) > 0 && !slices.Contains(w.Children, signalOpen):`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestB23MemberThatWatchesALaterRoundsSignalDoesNotBelieveIt$",
	},
	{
		name: "barrier-signal-surplus",
		what: "A member whose number is beyond n believes the signal.",
		edits: []edit{{
			in: "participant.watchSignal",
			old: `
				if int(p.number) > a.n {
					return nil, nil
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run Surplus",
	},
	{
		name: "barrier-size-unchecked",
		what: "A round is opened although the n of the path has changed since it was read.",
		edits: []edit{{
			in:  "opening.ops",
			old: `return slices.Concat(o.signal, []any{o.ready, o.path}, o.members)`,
			new: `return slices.Concat(o.signal, []any{o.ready}, o.members)`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestB78RoundIsNotOpened",
	},
}
