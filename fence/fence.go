// Package fence makes a store refuse the writes of a process that has lost its lock.
//
// A process may go on under a lock that it has lost: it was suspended, or cut off, and does not
// know yet. Its fencing token is lower than that of the next holder, so whoever keeps the highest
// token can refuse it. This package keeps it, and compares.
//
//   - [SQL] keeps it in a table of PostgreSQL, MySQL, MariaDB or SQLite, and compares in the
//     transaction that writes. It is the one to use where the data are in a database.
//   - [Memory] keeps it in a service of one process.
//   - [Handler] and [Transport] carry it over HTTP. Module fence/fencegrpc does so over gRPC.
//
// All take a [Holder]: a Lease, Term, SlotLease, Item or Leases of package zkrecipes. Data in
// ZooKeeper need none of this: write them with Lease.Commit.
//
// A token is no credential. Whoever may present one can present a high one, and lock out all
// others: so only clients that are trusted with the data may reach a guard.
package fence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Holder is what presents tokens. Lease, Term, SlotLease, Item and Leases of package zkrecipes
// are Holders, and so are [Tokens].
type Holder interface {
	// Fences returns the holder's token for each fence, by the name of the fence.
	Fences() map[string]int64
}

// Tokens are tokens by the names of their fences, such as those that a request brings.
type Tokens map[string]int64

// Fences returns t.
func (t Tokens) Fences() map[string]int64 { return t }

// Require returns ErrNoToken unless t has a token for each of the fences.
func (t Tokens) Require(fences ...string) error {
	for _, name := range fences {
		if _, ok := t[name]; !ok {
			return fmt.Errorf("fence: %w for %q", ErrNoToken, name)
		}
	}
	return nil
}

// Guard lets a holder act, unless a later one has acted before. [SQL] and [Memory] are Guards.
type Guard interface {
	// Admit returns nil if no later holder was admitted, and remembers the holder's tokens. The
	// caller then acts with the context work, which ends with ctx, and calls done afterwards.
	// Each guard says whether a later holder is kept waiting until then.
	//
	// It returns ErrFenced if a later holder was admitted, ErrNoToken if h has no token, and
	// otherwise why the guard cannot know. Then the caller must not act.
	Admit(ctx context.Context, h Holder) (work context.Context, done func(), err error)
}

var (
	// ErrFenced is returned if a later holder has come first. The caller no longer holds the
	// lock, whatever its lease says. Do not try again with the same token.
	ErrFenced = errors.New("refused: a later holder came first")
	// ErrNoToken is returned for a holder that has no fencing token: one that holds nothing, or
	// a read lease, or one whose fence has a name of more than 767 bytes.
	ErrNoToken = errors.New("no fencing token")
	// ErrMalformed is returned for a Header that cannot be parsed.
	ErrMalformed = errors.New("malformed " + Header)
	// ErrUncertain is returned if the reply to COMMIT was lost. The transaction may have been
	// committed. See [SQL.Do].
	ErrUncertain = errors.New("the outcome of the commit is unknown")
	// ErrUnknown is returned by a Memory that does not know the lowest token of a fence.
	ErrUnknown = errors.New("the lowest token is unknown")
)

// maxName is the longest name of a fence, in bytes. InnoDB's keys have room for it in each of its
// row formats.
const maxName = 767

// claim is a token that a holder presents for a fence.
type claim struct {
	name  string
	token int64
}

// claims returns what h presents, in the order of names: all callers take the fences in that
// order, so they do not wait for each other in a circle.
func claims(h Holder) ([]claim, error) {
	if h == nil {
		return nil, fmt.Errorf("fence: %w: nil Holder", ErrNoToken)
	}
	tokens := h.Fences()
	if len(tokens) == 0 {
		return nil, fmt.Errorf("fence: %w: the holder holds nothing, or a read lease", ErrNoToken)
	}
	var all []claim
	for _, name := range slices.Sorted(maps.Keys(tokens)) {
		c := claim{name, tokens[name]}
		switch {
		case c.token <= 0:
			return nil, c.fail(fmt.Errorf("%w: tokens are positive", ErrNoToken))
		case name == "", len(name) > maxName:
			return nil, c.fail(fmt.Errorf("%w: the name of a fence has 1 to %d bytes", ErrNoToken, maxName))
		}
		all = append(all, c)
	}
	return all, nil
}

func (c claim) fail(err error) error {
	return fmt.Errorf("fence: %q, token %d: %w", c.name, c.token, err)
}

// check refuses the token if last, the highest so far, is higher.
func (c claim) check(last int64) error {
	if c.token < last {
		return c.fail(fmt.Errorf("%w, with token %d", ErrFenced, last))
	}
	return nil
}

type contextKey struct{}

// NewContext returns a context that carries the holder: [Transport] writes its tokens to requests
// with that context. It panics if h is nil.
func NewContext(ctx context.Context, h Holder) context.Context {
	if h == nil {
		panic("fence: nil Holder") // its requests would have no tokens
	}
	return context.WithValue(ctx, contextKey{}, h)
}

// FromContext returns the holder that the context carries. In a request that [Handler] has let
// through, it has the request's tokens: give it to [SQL.Do].
func FromContext(ctx context.Context) (Holder, bool) {
	h, ok := ctx.Value(contextKey{}).(Holder)
	return h, ok
}
