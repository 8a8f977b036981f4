package main

// sessionMutants are about a session: its connections, watches and clock, and servers that have lost transactions.
var sessionMutants = []mutant{
	{
		name: "gate-open",
		what: "Requests pass before the watches are set again.",
		in:   "internal/wire",
		old:  `return c.gateClosed && c.unarmed == 0 && c.asked && !c.asking`,
		new:  `return c.gateClosed && c.asked && !c.asking`,
		test: "./internal/wire",
	},
	{
		name: "gate-opens-too-early",
		what: "The gate opens although a reply has asked for another comparison meanwhile.",
		in:   "internal/wire",
		old:  `if !c.mayOpen() {`,
		new:  `if !c.gateClosed {`,
		test: "./internal/wire -run ^TestTheGateStaysClosedIf",
	},
	{
		name: "session-gate-proves-alive",
		what: "What is answered behind the gate renews the leases.",
		in:   "internal/wire",
		old: `if !closed {
		c.session.markAlive(sent)`,
		new: `{
		c.session.markAlive(sent)`,
		test: "./internal/wire",
	},
	{
		name: "session-clock-late",
		what: "The clock of the leases leaves no margin.",
		in:   "internal/wire",
		old:  `return sent.Add(timeout - timeout/100)`,
		new:  `return sent.Add(timeout)`,
		test: "./internal/wire",
	},
	{
		name: "session-pause-unnoticed",
		what: "A process that was paused goes on without a handshake.",
		in:   "internal/wire",
		old:  `was > maxSilence(c.session.Timeout())`,
		new:  `was > 9*maxSilence(c.session.Timeout())`,
		test: "./internal/wire",
	},
	{
		name: "release-zxid-unseen",
		what: "A session that has acted upon an event is resumed by a server that is behind it.",
		in:   "internal/wire",
		old:  `c.session.sawEvent(zxid)`,
		new:  `_ = zxid`,
		test: "./internal/wire -run Zxid",
	},
	{
		name: "release-rearms-from-events",
		what: "Watches are armed again from the zxid of an event, so those of other events are lost.",
		in:   "internal/wire",
		old:  `return s.replyZxid`,
		new:  `return s.seenZxid`,
		test: "./internal/wire -run Zxid",
	},
	{
		name: "reply-to-join-unknown",
		what: "A malformed reply to a transaction counts as a refusal.",
		in:   "internal/zkconn",
		old: `t.call.Reject(err)
		return Failure(fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err))`,
		new: `t.call.Reject(err)
		return Failure(err)`,
		test: "./internal/zkconn -run TestAMalformed",
	},
	{
		name: "session-timer-sleeps-on",
		what: "What is due before the timer does not reset it.",
		in:   "internal/hold",
		old:  `if !w.due.IsZero() && !at.Before(w.due) {`,
		new:  `if !w.due.IsZero() {`,
		test: "./internal/zkconn -run ^Test(HolderHearsInTime|ContextOfALateGrant)",
	},
	{
		name: "watch-fires-late",
		what: "An event is passed on before its watches fire: a new grant may miss the deletion of its place.",
		in:   "internal/zkconn",
		old:  `if e.Type == jute.EventDeleted {`,
		new: `s.cfg.Event(e)
			if e.Type == jute.EventDeleted {`,
		test: "./internal/zkconn -run ^TestAWatchFiresBeforeItsEventIsPassedOn$",
	},
	{
		name: "close-before-contexts",
		what: "Close ends the session before the contexts of its leases.",
		in:   "internal/session",
		old:  `s.end(errs.ErrClosed)`,
		new:  `defer s.end(errs.ErrClosed)`,
		test: "./internal/line -run ^TestCloseEndsAllContexts",
	},
	{
		name: "session-keeps-what-is-back",
		what: "Znodes that are back after the servers have lost their deletion are left.",
		in:   "internal/zkconn",
		old:  `strange = append(strange, path)`,
		test: "./internal/session -run ^TestAPlaceThatIsBack",
	},
	{
		name: "session-keeps-what-is-lost",
		what: "Znodes that the servers have lost are taken to stand.",
		in:   "internal/zkconn",
		old:  `missing = append(missing, k.path)`,
		test: "./internal/session -run ^TestALeaseWhosePlaceTheServers",
	},
	{
		name: "session-believes-a-receipt-that-went-back",
		what: "A put is taken for done because the servers have lost transactions of its receipt.",
		in:   "internal/queuelog",
		old:  `case stat.Version < r.version:`,
		new:  `case stat == nil:`,
		test: "./internal/session -run ^TestAPutThatReturnsNil",
	},
	{
		name: "fence-lets-an-earlier-holder-write",
		what: "A fence does not compare tokens.",
		in:   "fence",
		old:  ` WHERE fence.token <= excluded.token`,
		test: "./fence/internal/dbtest/suite -run ^TestSQLite$",
	},
}
