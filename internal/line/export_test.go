package line

import "github.com/zkrecipes/zkrecipes/internal/session"

// What the tests beside this package see of its inside.

// KnownContainers returns how many containers the client knows.
func KnownContainers(c *session.Client) int {
	t := containersOf(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// JoinOf returns the join of a place with that uuid.
func JoinOf(uuid string) *JoinRequest { return &JoinRequest{uuid: uuid} }

// AsReader returns the reader's place that a downgrade makes of a writer's.
func (p *Place) AsReader() *Place { return p.asReader() }

// Replace carries a downgrade out.
func (p *Place) Replace(next *Place) error { return p.replace(next) }

// FindLostJoin finds the place of a join whose reply was lost.
func (l *Line) FindLostJoin(s *session.Session, e *JoinRequest) (*Place, error) {
	return l.findLostJoin(s, e)
}
