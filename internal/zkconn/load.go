package zkconn

// What others see of a session's account.

// Load is how much the end of a session would cost the servers.
type Load struct {
	Bytes  int // of the paths of its ephemeral znodes, as in the record
	Znodes int // how many there are
	Bound  int // that Bytes may not exceed
}

// Load returns the session's load, with what is under way.
func (s *Session) Load() Load {
	weight, znodes := s.account.state()
	return Load{Bytes: weight, Znodes: znodes, Bound: s.account.bound}
}

// Room returns how many bytes may be added.
func (s *Session) Room() int {
	weight, _ := s.account.state()
	return max(0, s.account.bound-weight)
}

// CheckRoom returns ErrSessionFull if there is no room for so many bytes: for callers that
// would otherwise write something before the transaction that is refused.
func (s *Session) CheckRoom(n int) error {
	if weight, _ := s.account.state(); weight+n > s.account.bound {
		return s.fullError(weight + n)
	}
	return nil
}

// NoteGone notes that znodes do not exist, which the session has created or may have
// created. If the number of a sequential one is not known, its path without the number will
// do.
func (s *Session) NoteGone(paths ...string) { s.account.gone(paths...) }

// Creates is for NoteGoneSince, before the request that tells is sent.
func (s *Session) Creates() int64 { return s.account.creates() }

// NoteGoneSince is NoteGone for paths at which the session may create another znode meanwhile.
func (s *Session) NoteGoneSince(creates int64, paths ...string) {
	s.account.goneSince(creates, paths...)
}

// NoteThere notes that a znode exists that the session has created: by a create whose reply was
// lost, and after which an event may have told of the end of one before it at the same path.
func (s *Session) NoteThere(path string) { s.account.there(path) }

// HasBelow reports whether an ephemeral znode of the session stands right below path, or
// may stand there.
func (s *Session) HasBelow(path string) bool { return s.account.hasBelow(path) }

// charge counts what a transaction creates. See account.begin.
func (s *Session) charge(ops []any, over int) error {
	weight, ok := s.account.begin(ops, over)
	if !ok {
		return s.fullError(weight)
	}
	if s.account.nearlyFull() {
		s.cfg.NearlyFull(s.Load())
	}
	return nil
}

func (s *Session) fullError(weight int) error {
	return Errorf(ErrSessionFull, "the session is full: the paths of its ephemeral znodes would have %d bytes, and may have %d, "+
		"9/10 of the servers' jute.maxbuffer (Options.MaxBuffer): no server could read the end of a larger session. "+
		"Use another Client for some of them, let fewer calls wait, or use KeepFor", weight, s.account.bound)
}
