package zktest

import "github.com/zkrecipes/zkrecipes/internal/jute"

// Change is one change of the data that the server has applied.
type Change struct {
	Zxid    int64 // of its transaction
	Path    string
	Created bool
	Deleted bool // neither: data, ACL or counter was set

	// Data is what was written: a new znode's data, or an old one's new data. It
	// must not be changed.
	Data []byte
}

// OnChange makes the server tell f each change as it is applied, in order,
// before anybody else hears of it. f must not block, nor call the Server.
func OnChange(f func(Change)) Option { return func(o *options) { o.onChange = f } }

func (s *Server) notifyOnChange(t *txn) {
	f := s.opt.onChange
	if f == nil {
		return
	}
	for i := range t.changes {
		c := &t.changes[i]
		switch c.op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			f(Change{Zxid: t.zxid, Path: c.path, Created: true, Data: c.data})
		case jute.OpDelete:
			f(Change{Zxid: t.zxid, Path: c.path, Deleted: true})
		case jute.OpClose:
			for _, path := range c.paths {
				f(Change{Zxid: t.zxid, Path: path, Deleted: true})
			}
		case jute.OpSetData:
			f(Change{Zxid: t.zxid, Path: c.path, Data: c.data})
		case jute.OpSetACL, opSetCounter:
			f(Change{Zxid: t.zxid, Path: c.path})
		}
	}
}
