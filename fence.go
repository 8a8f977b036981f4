package zkrecipes

import (
	"maps"
	"strconv"
)

// What package fence asks of a holder: under which names a store keeps its tokens. A name says
// what the token grows with. So it has Options.Prefix, the slot, or the item's ID.

// Fences returns the name of the lock's fence and the lease's token: the name is the path with
// Options.Prefix. A store keeps the highest token by that name, and refuses a lower one. Package
// fence does so. It returns nil for a lease that is Shared, whose token is no fencing token, and
// for a zero Lease. A lease that has ended keeps its fence. It sends nothing.
func (l *Lease) Fences() map[string]int64 {
	if l.isZero() || l.Shared() {
		return nil
	}
	return l.fences("")
}

// fences returns the token by the lock's path and what is below it.
func (l *Lease) fences(below string) map[string]int64 {
	abs, err := l.handle.Grant.At.Client.Resolve(l.Path())
	if err != nil {
		return nil // cannot happen: the path was valid when the grant was made
	}
	return map[string]int64{abs + below: int64(l.Token())}
}

// Fences returns the fence of the term. Its name is the path of the Election. See Lease.Fences.
func (t *Term) Fences() map[string]int64 { return t.held().Fences() }

// Fences returns a fence for each slot, whose name is <path>/slots/<number>. See Lease.Fences.
func (l *SlotLease) Fences() map[string]int64 {
	if l.held().isZero() {
		return nil
	}
	all := map[string]int64{}
	for _, slot := range l.slots {
		maps.Copy(all, l.lease.fences("/slots/"+strconv.Itoa(slot)))
	}
	return all
}

// Fences returns the fence of the item, whose name is <path>/items/<ID>. See Lease.Fences.
func (it *Item) Fences() map[string]int64 {
	if it.held().isZero() {
		return nil
	}
	return it.lease.fences("/items/" + string(it.ID))
}

// Fences returns the fences of all the leases. See Lease.Fences.
func (ls *Leases) Fences() map[string]int64 {
	all := map[string]int64{}
	for _, l := range ls.All() {
		maps.Copy(all, l.Fences())
	}
	return all
}

// Fences returns the fence of the shard, whose name is the path of its lock. See Lease.Fences.
func (s *Shard) Fences() map[string]int64 { return s.held().Fences() }
