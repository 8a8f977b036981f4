package main

// sessionMutants are about one session: its connections, its watches, its size.
var sessionMutants = []mutant{
	{
		name: "gate-open",
		what: "Requests are let through before the watches are set again.",
		edits: []edit{{
			in:  "Conn.Write",
			old: `if c.gateClosed && o.op != jute.OpSetWatches && o.op != jute.OpPing && o.op != jute.OpClose {`,
			new: `if false && c.gateClosed && o.op != jute.OpSetWatches && o.op != jute.OpPing && o.op != jute.OpClose {`,
		}},
		test: "go test ./internal/wire",
	},
	{
		name: "reply-to-join-unknown",
		what: "A malformed reply to a transaction counts as a refusal.",
		edits: []edit{{
			in: "Transaction.Outcome",
			old: `
				t.call.Reject(err)
				return Failure(fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err))`,
			new: `
				t.call.Reject(err)
				return Failure(err)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/zkconn -run TestAMalformed",
	},
	{
		name: "reply-unchecked",
		what: "Replies are not checked before go-zookeeper decodes them.",
		edits: []edit{{
			in:  "Conn.dispatch",
			old: `if code == 0 {`,
			new: `if false {`,
		}},
		test: "go test ./internal/wire -run TestAMalformedReplyClosesTheConnection",
	},
	{
		name: "session-close-told-as-loss",
		what: "A clean Close is told as a lost connection.",
		edits: []edit{{
			in:  "Session.onDown",
			old: `case s.up && s.cause == nil: // else the owner has closed the session, and knows`,
			new: `case s.up:`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestTheEndOfAClientIsTold",
	},
	{
		name: "session-forgets-lost-replies",
		what: "A znode whose creation was not answered is not counted.",
		edits: []edit{{
			in: "account.unknown",
			old: `
				z.stays = true
				if isNumbered(op) {`,
			new: `
				if !isNumbered(op) {
					a.dropPath(op.Path, z)
				} else {
					a.dropNumbered(op)
				}
				if false {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/session -run ^TestALostReplyCounts",
	},
	{
		name: "session-gate-proves-alive",
		what: "What is answered behind the gate renews the leases.",
		edits: []edit{{
			in: "Conn.proveAlive",
			old: `
				if !closed {
					c.session.markAlive(sent)
				}`,
			new: `c.session.markAlive(sent)`,
		}},
		test: "go test ./internal/wire",
	},
	{
		name: "session-pause-unnoticed",
		what: "A process that was paused goes on without a handshake.",
		edits: []edit{{
			in:  "Conn.flush",
			old: `was > maxSilence(c.session.Timeout())`,
			new: `was > 9*maxSilence(c.session.Timeout())`,
		}},
		test: "go test ./internal/wire",
	},
	{
		name: "session-handshake-ends-backoff",
		what: "Each handshake ends the backoff.",
		edits: []edit{{
			in:  "Session.onUp",
			old: `s.upSince, s.lastErr = time.Now(), nil`,
			new: `s.upSince, s.failures, s.lastErr = time.Now(), 0, nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/zkconn -run ^TestReconnect",
	},
	{
		name: "session-addresses-forgotten",
		what: "A lookup that fails takes the addresses that are known.",
		edits: []edit{{
			in: "Servers.lookUp",
			old: `if err == nil {
				n.servers = nil`,
			new: `n.servers = nil
				if err == nil {`,
		}},
		test: "go test ./internal/zkconn -run ^TestAddressesStay",
	},
	{
		name: "session-attempts-grow-with-addresses",
		what: "All addresses of a name are tried without a pause.",
		edits: []edit{{
			in:  "Session.pace",
			old: `round, in := n/min(servers, maxBurst), n%min(servers, maxBurst)`,
			new: `round, in := n/servers, n%servers`,
		}},
		test: "go test ./internal/zkconn -run ^TestAttemptsAt",
	},
	{
		name: "session-keeps-what-is-back",
		what: "Znodes that are back after the servers have lost their deletion are left.",
		edits: []edit{{
			in:  "account.compare",
			old: `strange = append(strange, path)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/session -run ^TestAPlaceThatIsBack",
	},
	{
		name: "session-keeps-what-is-lost",
		what: "Znodes that the servers have lost are taken to stand.",
		edits: []edit{{
			in:  "account.compare",
			old: `missing = append(missing, path)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/session -run ^TestALeaseWhosePlaceTheServers",
	},
	{
		name: "session-believes-a-receipt-that-went-back",
		what: "A put is taken for done because the servers have lost transactions of its receipt.",
		edits: []edit{{
			in:  "Receipt.Refused",
			old: `case stat.Version < r.version:`,
			new: `case stat == nil:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/session -run ^TestAPutThatReturnsNil",
	},
	{
		name: "session-never-given-up",
		what: "A session whose handshakes are answered is never given up.",
		edits: []edit{{
			in:  "Session.noteContact",
			old: `c.answered.extend(s.ncSince, now, gap)`,
			new: `delete(s.unserved, s.server)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/zkconn -run ^TestSession(WhoseCred|IsGivenUp)",
	},
	{
		name: "session-refuses-what-it-gives-back",
		what: "A transaction that deletes as much as it creates is refused in a full session.",
		edits: []edit{{
			in:  "account.begin",
			old: `if n := a.growth(ops); n > 0 && a.weight+n > a.bound+over {`,
			new: `if n := a.growth(ops); n > -1<<40 && a.weight+n > a.bound+over {`,
		}},
		test: "go test ./internal/zkconn -run ^TestWhatDeletes",
	},
	{
		name: "session-timer-sleeps-on",
		what: "What is due before the timer does not reset it.",
		edits: []edit{{
			in:  "watchdog.tickBy",
			old: `if !w.due.IsZero() && !at.Before(w.due) {`,
			new: `if !w.due.IsZero() {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/zkconn -run ^Test(HolderHearsInTime|ContextOfALateGrant)",
	},
	{
		name: "session-without-bound",
		what: "A session may weigh more than the servers can read at its end.",
		edits: []edit{{
			in:  "account.begin",
			old: `if n := a.growth(ops); n > 0 && a.weight+n > a.bound+over {`,
			new: `if n := a.growth(ops); n > 0 && a.weight+n > 1<<40 {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/session -run ^TestAFullSessionRefuses",
	},
	{
		name: "watch-fires-late",
		what: "An event is passed on before its watches fire: a new grant may miss the deletion of its place.",
		edits: []edit{{
			in:  "Session.onEvent",
			old: `if e.Type == jute.EventDeleted {`,
			new: `
				s.cfg.Event(e)
				if e.Type == jute.EventDeleted {`,
		}, {
			in:  "Session.onEvent",
			old: `s.cfg.Event(e)`,
		}},
		test: "go test ./internal/zkconn -run ^TestAWatchFiresBeforeItsEventIsPassedOn$",
	},
	{
		name: "watch-notifies-too-late",
		what: "A watch that has fired notifies nobody who asks later.",
		edits: []edit{{
			in: "firing.Notify",
			old: `
				if f.HasFired() {
					wake(c)
					return
				}`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/queue -run TestBoundedPutWaitsOnAny",
	},
	{
		name: "gate-opens-too-early",
		what: "The gate opens although a reply has asked for another comparison meanwhile.",
		edits: []edit{{
			in:  "Conn.openGate",
			old: `if !c.mayOpen() {`,
			new: `if !c.gateClosed {`,
		}},
		test: "go test ./internal/wire -run ^TestTheGateStaysClosedIf",
	},
	{
		name: "close-waits-for-a-second",
		what: "Close waits no longer than go-zookeeper for the answer to closeSession.",
		edits: []edit{{
			in:  "Session.Close",
			old: `if !s.wire.Over() {`,
			new: `if false {`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run ^TestCloseWaitsForAServer",
	},
	{
		name: "session-ends-in-silence",
		what: "That servers are behind what a session has seen is not reported.",
		edits: []edit{{
			in:  "Session.resolve",
			old: `s.cfg.Log(slog.LevelError,`,
			new: `s.cfg.Log(slog.LevelDebug,`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/session -run ^TestServersThatAreBehindASession",
	},
}
