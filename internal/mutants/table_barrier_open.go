package main

// barrierOpenMutants are about the opening of a barrier's round, and how the members learn of it.
var barrierOpenMutants = []mutant{
	{
		name: "barrier-another-ready",
		what: "The znode ready of another round is believed.",
		edits: []edit{{
			in: "participant.judge",
			old: `
				case stat.Czxid != p.LineCzxid:
					return 0, zk.ErrNoNode`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestMemberOfAnExpired",
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
		name: "barrier-opens-unchecked",
		what: "A round is opened without a check that its members still exist.",
		edits: []edit{{
			in:  "participant.open",
			old: `checks = append(checks, &zk.CheckVersionRequest{Path: a.Abs() + "/" + m.Name, Version: -1})`,
			new: `_ = m`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestMemberThatDiesWhileAnother",
	},
	{
		name: "barrier-signal-surplus",
		what: "A member whose number is beyond n believes the signal.",
		edits: []edit{{
			in: "participant.watchSignal",
			old: `
				if int(p.Number) > a.n {
					return nil, nil
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test . ./internal/barrier -run Surplus",
	},
	{
		name: "barrier-size-unchecked",
		what: "A round is opened although the n of the path has changed since it was read.",
		edits: []edit{{
			in:  "participant.open",
			old: `checks := []any{&zk.CheckVersionRequest{Path: a.Root.Abs(), Version: version}}`,
			new: `checks := []any{&zk.CheckVersionRequest{Path: a.Root.Abs(), Version: min(version, -1)}}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestRoundIsNotOpened",
	},
}
