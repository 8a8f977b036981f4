package judge

import (
	"cmp"
	"slices"
	"time"
)

// RecipeDowngrade is the Recipe of a downgrade, which waits for nobody. Its Key is the lock's
// followed by DowngradeSuffix. RecipeLockAll is that of a call for several locks, which has a
// Key of its own. Its locks are granted under their own Keys.
const (
	RecipeDowngrade = "downgrade"
	DowngradeSuffix = "/downgrade"
	RecipeLockAll   = "lockall"
)

// fence judges one lock by what the servers say: the order of fenced transactions (zxid)
// is that of their tokens, and none comes between a holder's read and its write.
type fence struct {
	key       string
	commits   []Event        // Committed, in the order of their zxids; the last ones
	tokens    []grantedToken // of exclusive grants, the last ones
	n         int            // that succeeded
	doubtful  int            // whose outcome nobody was told
	lastKnown int32          // the highest version
}

type grantedToken struct {
	token int64
	at    time.Duration
}

func (j *Judge) fenceOf(key string) *fence {
	return of(j.fences, key, func() *fence { return &fence{key: key} })
}

func (f *fence) take(j *Judge, e Event) {
	switch e.Kind {
	case Granted:
		if e.Token != 0 && !e.Shared && e.Item == "" {
			f.granted(j, e)
		}
	case Committed:
		f.committed(j, e)
	case Doubted:
		f.doubtful++
	case Downgraded:
		if e.Version != e.Was && !j.losses.between(e.From, e.At) {
			j.violation(e.At, "downgrade", []string{f.key}, "%s: %v (token %d) wrote version %d and found version %d after its downgrade: somebody wrote in between",
				f.key, e.caller(), e.Token, e.Was, e.Version)
		}
	}
}

func (f *fence) granted(j *Judge, e Event) {
	if slices.ContainsFunc(f.tokens, func(t grantedToken) bool { return t.token == e.Token }) {
		j.violation(e.At, "token", []string{f.key}, "%s: token %d was granted twice, now to %v", f.key, e.Token, e.caller())
	}
	f.tokens = keep(append(f.tokens, grantedToken{e.Token, e.At}))
}

func (f *fence) committed(j *Judge, e Event) {
	f.n++
	f.lastKnown = max(f.lastKnown, e.Version)
	if e.Version != e.Was+1 && !j.losses.between(e.From, e.At) {
		j.violation(e.At, "commit", []string{f.key}, "%s: %v (token %d) read version %d and wrote version %d: somebody wrote while it held",
			f.key, e.caller(), e.Token, e.Was, e.Version)
	}
	i, _ := slices.BinarySearchFunc(f.commits, e, func(a, b Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	for _, before := range slices.Backward(f.commits[:i]) {
		if f.compare(j, before, e); !before.Shared {
			break // it was compared with those before it
		}
	}
	for _, after := range f.commits[i:] {
		if f.compare(j, e, after); !after.Shared {
			break
		}
	}
	f.commits = keep(slices.Insert(f.commits, i, e))
}

// compare compares two commits, of which the servers carried out a first. Readers' tokens have
// no order among themselves.
func (f *fence) compare(j *Judge, a, b Event) {
	if a.Token > b.Token && !(a.Shared && b.Shared) {
		j.violation(b.At, "token", []string{f.key}, "%s: %v wrote with token %d (zxid %#x) after %v with token %d (zxid %#x)",
			f.key, b.caller(), b.Token, b.Zxid, a.caller(), a.Token, a.Zxid)
	}
	if a.Version >= b.Version || a.Zxid == b.Zxid {
		j.violation(b.At, "commit", []string{f.key}, "%s: version %d was written (zxid %#x) before version %d (zxid %#x)",
			f.key, a.Version, a.Zxid, b.Version, b.Zxid)
	}
}

// Commits compares the version of a lock's data at the end with the commits. unknown is
// how many may have succeeded beyond those that were reported, such as those of killed
// processes.
func (j *Judge) Commits(e Event, unknown int) {
	f := j.fenceOf(e.Key)
	switch extra := int(e.Version) - f.n; {
	case e.Version < f.lastKnown || extra < 0:
		j.violation(e.At, "commit", []string{e.Key}, "%s: commits are lost: %d succeeded, version %d among them, and the version is %d",
			e.Key, f.n, f.lastKnown, e.Version)
	case extra > f.doubtful+unknown:
		j.violation(e.At, "commit", []string{e.Key}, "%s: version %d, but %d commits succeeded and %d may have",
			e.Key, e.Version, f.n, f.doubtful+unknown)
	}
}
