package main

// leaseMutants are about grants and leases, downgrades and LockAll.
var leaseMutants = []mutant{
	{
		name: "downgrade-evicts",
		what: "The deletion of the place in a downgrade is taken for an eviction.",
		edits: []edit{{
			in: "Grant.placeGone",
			old: `
				if g.Place().has(path) {
					g.End(errs.Lost(cause))
				}`,
			new: `g.End(errs.Lost(cause))`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
	{
		name: "downgrade-forgets",
		what: "A downgrade that is carried out after its grant has ended leaves the place behind.",
		edits: []edit{{
			in:  "Grant.move",
			old: `g.abandon()`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
	{
		name: "downgrade-of-a-mutex",
		what: "A lease of a Mutex can be downgraded.",
		edits: []edit{{
			in:  "Lease.Downgrade",
			old: `case r.Line.Recipe != string(RecipeRWLock):`,
			new: `case false:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run TestALeaseOfAnotherRecipe",
	},
	{
		name: "downgrade-refused",
		what: "A downgrade whose second attempt is refused is taken as failed.",
		edits: []edit{{
			in:  "Place.replace",
			old: `case o.Applied(), !again, o.SessionOver():`,
			new: `default:`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestDowngrade.*Refused",
	},
	{
		name: "downgrade-signals",
		what: "A downgrade sends the signal of a leaving holder.",
		edits: []edit{{
			in:  "Place.replace",
			old: `o := p.Session.Multi(p.Session.Lifetime(), create, &zk.DeleteRequest{Path: p.Path, Version: -1})`,
			new: `
				o := p.Session.Multi(p.Session.Lifetime(), create,
					&zk.SetDataRequest{Path: p.Path, Data: []byte("released"), Version: -1},
					&zk.DeleteRequest{Path: p.Path, Version: -1})`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
	{
		name: "downgrade-unsettled",
		what: "A downgrade whose reply was lost is taken as failed.",
		edits: []edit{{
			in:  "Place.replace",
			old: `case again && o.RefusedAt(create, zk.ErrNodeExists):`,
			new: `case !again && o.RefusedAt(create, zk.ErrNodeExists):`,
		}, {
			in: "Place.replace",
			old: `
				case check.Applied():
					p.Session.NoteGone(p.Path)
					return nil`,
			new: `
				case check.Applied():
					p.Session.NoteGone(p.Path)
					return o.Err()`,
		}},
		test: "go test ./internal/sim -run RW -seeds 1000",
	},
	{
		name: "grant-after-the-end",
		what: "A grant is returned although the session may have ended.",
		edits: []edit{{
			in: "Grant.Enter",
			old: `
				if err := g.endIfLost(); err != nil {
					return nil, err
				}`,
		}, {
			in:  "Place.Grant",
			old: `if p.Session.IsValid() {`,
			new: `if true || p.Session.IsValid() {`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "lease-reads-too-late",
		what: "A read of a lease that has ended returns data.",
		edits: []edit{{
			in:  "leaseRead",
			old: `if ended := l.Err(); ended != nil {`,
			new: `if ended := l.Err(); ended != nil && err != nil {`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestReadsAnsweredAfterTheEnd",
	},
	{
		name: "lockall-as-given",
		what: "LockAll locks in the order of its arguments.",
		edits: []edit{{
			in:  "lockOrder",
			old: `order := slices.SortedFunc(slices.Values(locks), func(a, b *Mutex) int { return cmp.Compare(a.line.Abs(), b.line.Abs()) })`,
			new: `order := slices.Clone(locks)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestLockAllLocksInTheOrderOfPathsAndReleasesInReverse$",
	},
	{
		name: "lockall-forgets-a-loss",
		what: "LockAll waits on although it has lost a lock that it had.",
		edits: []edit{{
			in:  "lockInOrder",
			old: `held, while = append(held, l), l.Context(while)`,
			new: `held = append(held, l)`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestLocksUnderEachFaultAtEachRequest$/LockAll",
	},
	{
		name: "lockall-keeps-the-rest",
		what: "LockAll keeps what it has locked if it fails.",
		edits: []edit{{
			in:  "LockAll",
			old: `return releaseAll(held)`,
			new: `return nil`,
		}},
		test: "env ZK_HARNESS=zktest go test ./internal/line -run ^TestLockAllGivesBackWhatItHasIfItFails$",
	},
	{
		name: "reenters-lost",
		what: "A lost Lease can be re-entered.",
		edits: []edit{{
			in:  "reenter",
			old: `return nil, err`,
			new: `return newLease(h.Handle), nil`,
		}},
		test: "go test ./internal/sim -run Mutex -seeds 3000",
	},
	{
		name: "evict-unchecked",
		what: "A waiter that holds meanwhile is evicted.",
		edits: []edit{{
			in:  "Contender.evict",
			old: `append(checks, &zk.DeleteRequest{Path: path, Version: -1})`,
			new: `append(checks[:0], &zk.DeleteRequest{Path: path, Version: -1})`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestAWaiterThatHoldsMeanwhileIsNotEvicted",
	},
	{
		name: "evict-another",
		what: "A znode that came after the contender's is deleted.",
		edits: []edit{{
			in:  "Contender.evict",
			old: `case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != c.Czxid:`,
			new: `case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid == 0:`,
		}},
		test: "env ZK_HARNESS=zktest go test . -run TestAZnodeThatCameAfterTheContenderStays",
	},
}
