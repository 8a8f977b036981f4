package line

import (
	"math"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// MaxNumber is the last sequence number that is granted; see rollOver.
// ZooKeeper's counter of creates sticks at 2147483647, and concurrent creates
// wrap to negative numbers there (PrepRequestProcessor, DataNode's cversion).
// The difference is room for creates in flight.
const MaxNumber = math.MaxInt32 - 1_000_000

// Settings are what the lines of a Client need beside its Config. All of it must be set.
type Settings struct {
	LastNumber int32
	LongLine   int
}

// NewClient returns a client that does not connect yet, with what its lines need.
func NewClient(cfg session.Config, set Settings) *session.Client {
	t := &containers{idle: cfg.Idle, all: map[string]*container{}}
	t.client = session.New(cfg, func(s *session.Session, conn *zkconn.Config) func(error) {
		conn.Created, conn.Left = func(path string, data []byte, stat *zk.Stat) {
			t.created(path, data, stat)
			s.NoteParentOf(path)
		}, t.touch
		return hold.Watch(s, conn)
	})
	session.Attached(t.client, func() *Settings { return &set })
	session.Attached(t.client, func() *containers { return t })
	return t.client
}

func settingsOf(c *session.Client) *Settings { return session.Attached[Settings](c, nil) }
