package jute

// Stat is a znode's metadata (org.apache.zookeeper.data.Stat). Times are in
// milliseconds since 1970.
type Stat struct {
	Czxid, Mzxid                int64
	Ctime, Mtime                int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// ACL is one entry of an access control list (org.apache.zookeeper.data.ACL).
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

// AppendStat appends s to b.
func AppendStat(b []byte, s *Stat) []byte {
	b = AppendInt64(AppendInt64(b, s.Czxid), s.Mzxid)
	b = AppendInt64(AppendInt64(b, s.Ctime), s.Mtime)
	b = AppendInt32(AppendInt32(AppendInt32(b, s.Version), s.Cversion), s.Aversion)
	b = AppendInt64(b, s.EphemeralOwner)
	b = AppendInt32(AppendInt32(b, s.DataLength), s.NumChildren)
	return AppendInt64(b, s.Pzxid)
}

// Stat reads a Stat.
func (d *Decoder) Stat() Stat {
	return Stat{
		Czxid: d.Int64(), Mzxid: d.Int64(),
		Ctime: d.Int64(), Mtime: d.Int64(),
		Version: d.Int32(), Cversion: d.Int32(), Aversion: d.Int32(),
		EphemeralOwner: d.Int64(),
		DataLength:     d.Int32(), NumChildren: d.Int32(),
		Pzxid: d.Int64(),
	}
}

// AppendACLs appends a vector of ACLs to b.
func AppendACLs(b []byte, acls []ACL) []byte {
	b = AppendInt32(b, int32(len(acls)))
	for _, a := range acls {
		b = AppendString(AppendString(AppendInt32(b, a.Perms), a.Scheme), a.ID)
	}
	return b
}

// ACLs reads a vector of ACLs. It returns an empty one for length -1.
func (d *Decoder) ACLs() []ACL {
	n := d.Int32()
	d.Null = n == -1
	var v []ACL
	for i := int32(0); i < n && d.Err == nil; i++ {
		v = append(v, ACL{Perms: d.Int32(), Scheme: d.String(), ID: d.String()})
	}
	return v
}

// AppendStrings appends a vector of strings to b.
func AppendStrings(b []byte, v []string) []byte {
	b = AppendInt32(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}

// AppendNullableBuffer appends p with its length to b. The length of nil is -1.
func AppendNullableBuffer(b, p []byte) []byte {
	if p == nil {
		return AppendInt32(b, -1)
	}
	return AppendBuffer(b, p)
}

// AppendBool appends v to b.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
