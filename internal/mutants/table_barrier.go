package main

// barrierMutants are about joining a barrier's round, leaving it and cleaning up after it.
var barrierMutants = []mutant{
	{
		name: "barrier-counts-lost",
		what: "A barrier's next call begins beside a place that an earlier call may have left.",
		edits: []edit{{
			in:  "Line.AwaitAbandoned",
			old: `for j := range lost {`,
			new: `for j := range map[*lostJoin]struct{}{} {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestNextCallOfABarrierIsNotCounted",
	},
	{
		name: "barrier-expiry-not-lost",
		what: "A member of a barrier whose session ends gets an error that is not ErrLost.",
		edits: []edit{{
			in:  "ErrExpired",
			old: `fmt.Errorf("%w: the session ended while waiting: %w", ErrLost, zk.ErrSessionExpired)`,
			new: `fmt.Errorf("the session ended while waiting: %w", zk.ErrSessionExpired)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/barrier -run TestAMemberIsLostWithItsSession",
	},
}
