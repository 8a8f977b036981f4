package zktest

// Version is a version of ZooKeeper that a Server can emulate.
type Version int

// The versions that a Server can emulate. Replies are compared with those of
// ZooKeeper 3.8.0 and 3.9.3, the versions of Debian 12 and 13.
const (
	ZooKeeper38 Version = 38
	ZooKeeper39 Version = 39
)

// String returns the version as "3.8".
func (v Version) String() string {
	if v == ZooKeeper38 {
		return "3.8"
	}
	return "3.9"
}

// Emulate sets the version of ZooKeeper whose behavior the server shows. The
// default is ZooKeeper39. What clients notice of the difference:
//
//   - In 3.9, exists fails with NoAuth if the client may not read the znode
//     (ZOOKEEPER-2590, also since 3.8.4). In 3.8, every client may learn that a
//     znode exists, and its Stat.
//   - In 3.9, a connection can have a one-shot, a persistent and a recursive watch
//     on a path at the same time. In 3.8, the latest replaces the others.
//   - In 3.9, the header of an event has the zxid of the change. In 3.8, it is -1.
//   - In 3.9, a create2 in a multi returns a Stat. In 3.8, only that of a container
//     does.
//   - In 3.9, a check outside a multi, which few clients send, is refused and ends
//     the connection.
func Emulate(v Version) Option { return func(o *options) { o.version = v } }

// build is what the four-letter words report as the version. The date has the form
// that servers use since 3.7. go-zookeeper v1.0.4 cannot parse that: its FLWSrvr
// fails on real servers too.
func (v Version) build() string {
	if v == ZooKeeper38 {
		return "3.8.0-zktest, built on 2022-02-25 08:49 UTC"
	}
	return "3.9.3-zktest, built on 2024-10-17 23:21 UTC"
}
