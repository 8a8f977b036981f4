package zktest

import (
	"math/rand/v2"
	"time"
)

// PlanFromSeed returns a random plan of n faults of all kinds, spread over the
// given number of requests. The same arguments give the same plan, but which
// requests its faults fire on depends on the order in which requests arrive.
// Every fault ends, and no delay exceeds longest by more than a millisecond.
func PlanFromSeed(seed uint64, n, requests int, longest time.Duration) *Plan {
	r := rand.New(rand.NewPCG(seed, 0x7a6b74657374))
	actions := []Action{
		Drop, Drop, Drop, Withhold, Delay, Delay, Answer, Expire, Refuse, Silence, Lag, Lag, Miscount,
	}
	// The empty string is any request. The others are operations in whose
	// recovery clients tend to have bugs.
	ops := []string{
		"", "", "", "", "connect", "create", "multi", "delete", "setData", "exists", "getData",
		"getChildren2", "sync", "setWatches", "closeSession",
	}
	// ConnectionLoss and OperationTimeout, which a server under load or without
	// a quorum replies with.
	codes := []int32{-4, -7}
	requests = max(requests, 1)
	longest = max(longest, time.Millisecond)
	p := NewPlan()
	for range n {
		f := Fault{Do: actions[r.IntN(len(actions))], After: r.IntN(2) == 0}
		switch {
		case f.Do.onConnections():
			f.After = false
			f.Skip = r.IntN(8)
			f.Times = 1 + r.IntN(3)
		case f.Do == Miscount:
			f.After = false
			f.Op = []string{"multi", "delete"}[r.IntN(2)]
			f.Skip = r.IntN(requests) / len(ops)
			f.Times = 1 + r.IntN(3)
		default:
			if f.Op = ops[r.IntN(len(ops))]; f.checkOp() != nil {
				f.Op = ""
			}
			f.Skip = r.IntN(requests)
			if f.Op != "" {
				f.Skip /= len(ops)
			}
		}
		switch f.Do {
		case Delay, Lag:
			f.For = time.Millisecond + time.Duration(r.Int64N(int64(longest)))
			f.Behind = 1 + r.IntN(20)
		case Answer:
			f.Code = codes[r.IntN(len(codes))]
		}
		if f.Do != Lag {
			f.Behind = 0
		}
		p.Add(f)
	}
	return p
}
