package conformance

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// aclNumbers creates and deletes znodes with ACLs in every way that a server has. Its last
// znode has an ACL of its own, which gets the last number. A server gives numbers to the
// open ACL, too: only the znodes that it makes itself have it without one
// (ReferenceCountedACLCache).
var aclNumbers = Case{Name: "numbers of ACLs", Run: one(func(s *Script, a *Client) {
	me, you := digestACL(jute.PermAll, "u:secret"), digestACL(jute.PermAll, "v:secret")
	a.present("digest", "u:secret")
	a.Ok(Create(s.Path("a"), nil, me, 0))
	a.Ok(Create(s.Path("b"), nil, me, 0))
	a.Ok(Delete(s.Path("a"), -1))
	a.Ok(Delete(s.Path("b"), -1))
	s.Note("a list that comes again")
	a.Ok(Create(s.Path("a"), nil, me, 0))
	a.Ok(SetACL(s.Path("a"), me, -1))
	a.Ok(Create(s.Path("b"), nil, append(me, me...), 0))
	a.Ok(SetACL(s.Path("b"), me, -1))
	a.Ok(Create(s.Path("c"), nil, []jute.ACL{{Perms: jute.PermAll, Scheme: "auth"}}, 0))
	a.Ok(SetACL(s.Path("c"), append(me, you...), -1))
	a.Ok(Create(s.Path("d"), nil, append(you, me...), 0))
	s.Note("lists of znodes that the server makes")
	a.Ok(Create(s.Path("e"), nil, ReadOnly, 0))
	a.Ok(SetACL("/", Anyone(jute.PermAll&^jute.PermAdmin), -1))
	s.Note("requests that fail")
	a.Fails(jute.ErrNoNode, Create(s.Path("none/a"), nil, you, 0))
	a.Fails(jute.ErrBadVersion, SetACL(s.Path("a"), you, 7))
	a.Fails(jute.ErrBadVersion, Multi(Create(s.Path("f"), nil, you, 0), SetData(s.Path("a"), nil, 7)))
	s.Note("a multi, a session and a container")
	a.Ok(Multi(Create(s.Path("f"), nil, you, 0), Delete(s.Path("f"), -1)))
	b := s.Connect("b")
	b.Ok(Create(s.Path("ephemeral"), nil, Anyone(jute.PermAll&^jute.PermWrite), jute.FlagEphemeral))
	b.End()
	box := s.Path("box")
	a.Ok(CreateContainer(box, nil, Anyone(jute.PermRead|jute.PermCreate|jute.PermDelete), jute.FlagContainer))
	a.Ok(Create(box+"/n", nil, Open, 0))
	a.Ok(AddWatch(box, jute.WatchPersistent))
	a.Ok(Delete(box+"/n", -1))
	a.Receive() // the container's end
	a.Ok(Create(s.Path("last"), nil, Anyone(jute.PermDelete), 0))
})}

func TestZktestCountsACLsLikeZooKeeper(t *testing.T) {
	needsOwn(t)
	forEachVersion(t, func(t *testing.T, version string) {
		node, err := provider.Start(t.Context(), zkserver.Config{Version: version})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, node.Remove(context.Background())) })
		real := reference(t, node.Addr(), node)
		if real.CounterNearEnd == nil {
			t.Skip("the real server's files are not accessible")
		}
		srv := zktest.NewServer(t, zktest.Emulate(real.Version), zktest.TickTime(real.TickTime),
			zktest.ContainerCheckInterval(500*time.Millisecond))
		Run(t, "ZooKeeper", real, aclNumbers)
		Run(t, "zktest", emulated(srv, real.Version, real.TickTime), aclNumbers)
		require.NoError(t, real.Restart())
		known, last := knownACLs(t, node)
		require.Equal(t, known, srv.ACLs())
		require.Equal(t, last, srv.Counts().NewACLs)
	})
}

// knownACLs returns how many ACLs a server knows that has just started, and the highest of
// their numbers. It reads them from the snapshot that the server writes when it starts
// (FileSnap.serialize). No request shows them.
func knownACLs(t *testing.T, node *zkserver.Node) (known, last int) {
	dir, err := dataDir(t.Context(), node)
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "snapshot.*"))
	require.NoError(t, err)
	newest, highest := "", int64(-1)
	for _, name := range files {
		zxid, err := strconv.ParseInt(strings.TrimPrefix(filepath.Ext(name), "."), 16, 64)
		require.NoError(t, err)
		if zxid > highest {
			newest, highest = name, zxid
		}
	}
	b, err := os.ReadFile(newest)
	require.NoError(t, err)
	d := jute.NewDecoder(b)
	require.Equal(t, "ZKSN", string(jute.AppendInt32(nil, d.Int32())))
	d.Int32() // version of the format
	d.Int64() // id of the database
	for range d.Int32() {
		d.Int64() // session
		d.Int32() // its timeout
	}
	for range d.Int32() {
		last = max(last, int(d.Int64()))
		d.ACLs()
		known++
	}
	require.NoError(t, d.Err)
	return known, last
}
