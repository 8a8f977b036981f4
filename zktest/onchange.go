package zktest

import "github.com/zkrecipes/zkrecipes/internal/jute"

// Change is a change to a znode, as OnChange reports it.
type Change struct {
	Zxid    int64 // of its transaction
	Path    string
	Created bool
	Deleted bool // if neither is set, the data, ACL or counter was changed

	// Data is the data that was written, by a create or a setData. Do not modify
	// it.
	Data []byte
}

// OnChange makes the server call f for each change, in order, before any client
// can see the change. f must not block and must not call methods of the Server.
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
