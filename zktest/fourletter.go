package zktest

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"
)

// fourLetterWord returns the reply to a four-letter word that c has sent, or false
// if word is not one that the server knows. There are enough of them for probes,
// monitoring and tests; kazoo reads the version from envi. What the replies report
// of the past, such as latencies, is left out or zero.
func (s *Server) fourLetterWord(c *conn, word string) (reply string, ok bool) {
	report, ok := map[string]func() string{
		"ruok": func() string { return "imok" },
		"isro": func() string { return "rw" },
		"envi": func() string { return "Environment:\nzookeeper.version=" + s.opt.version.build() + "\n" },
		"mntr": s.monitorReport,
		"srvr": func() string { return s.statReport(false) },
		"stat": func() string { return s.statReport(true) },
		"conf": s.configReport,
		"cons": func() string { return s.connectionReport(true) },
		"dump": s.sessionReport,
		"wchs": s.watchReport,
	}[word]
	if !ok {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.countIn(1, 0)
	return report(), true
}

// monitorReport returns the reply to mntr. The caller holds mu.
func (s *Server) monitorReport() string {
	watches, ephemerals := 0, 0
	for c := range s.conns {
		for _, n := range c.watched {
			watches += n
		}
	}
	for _, paths := range s.leader.tree.ephemerals {
		ephemerals += len(paths)
	}
	var b strings.Builder
	for _, line := range []struct {
		name  string
		value any
	}{
		{"zk_version", s.opt.version.build()},
		{"zk_server_state", "standalone"},
		{"zk_uptime", time.Since(s.started).Milliseconds()},
		{"zk_avg_latency", "0.0"},
		{"zk_max_latency", 0},
		{"zk_min_latency", 0},
		{"zk_packets_received", s.packets.received},
		{"zk_packets_sent", s.packets.sent},
		{"zk_num_alive_connections", len(s.conns)},
		{"zk_outstanding_requests", 0},
		{"zk_znode_count", s.leader.tree.count()},
		{"zk_watch_count", watches},
		{"zk_ephemerals_count", ephemerals},
		{"zk_approximate_data_size", s.leader.tree.size()},
		{"zk_global_sessions", len(s.sessions)},
		{"zk_local_sessions", 0},
	} {
		fmt.Fprintf(&b, "%s\t%v\n", line.name, line.value)
	}
	return b.String()
}

// statReport returns the reply to srvr, or to stat, which has a list of clients
// too. The caller holds mu.
func (s *Server) statReport(withClients bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Zookeeper version: %s\n", s.opt.version.build())
	if withClients {
		b.WriteString("Clients:\n" + s.connectionReport(false))
	}
	fmt.Fprintf(&b, "Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: 0\n",
		s.packets.received, s.packets.sent, len(s.conns))
	fmt.Fprintf(&b, "Zxid: 0x%x\nMode: standalone\nNode count: %d\n", s.zxid, s.leader.tree.count())
	return b.String()
}

// connectionReport returns the reply to cons, or with fewer details the list of
// clients in the reply to stat. The caller holds mu.
func (s *Server) connectionReport(details bool) string {
	var lines []string
	for c := range s.conns {
		interested := 0 // in reading; not if it has sent a four-letter word
		if c.session != nil {
			interested = 1
		}
		line := fmt.Sprintf(" /%v[%d](queued=0,recved=%d,sent=%d",
			c.nc.RemoteAddr(), interested, c.packets.received, c.packets.sent)
		if details && c.session != nil {
			line += fmt.Sprintf(",sid=0x%x,est=%d,to=%d",
				c.session.id, c.accepted.UnixMilli(), c.session.timeout.Milliseconds())
		}
		lines = append(lines, line+")\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "") + "\n"
}

// configReport returns the reply to conf, without the settings of files and TLS
// that the server does not have. The caller holds mu.
func (s *Server) configReport() string {
	_, port, _ := net.SplitHostPort(s.addr)
	return fmt.Sprintf("clientPort=%s\ntickTime=%d\nmaxClientCnxns=0\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nserverId=0\n",
		port, s.opt.tick.Milliseconds(),
		s.opt.minTimeout.Milliseconds(), s.opt.maxTimeout.Milliseconds())
}

// sessionReport returns the reply to dump: when the sessions expire, and their
// ephemerals. The caller holds mu.
func (s *Server) sessionReport() string {
	sets := map[time.Time][]int64{}
	for id, ss := range s.sessions {
		sets[ss.expires] = append(sets[ss.expires], id)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "SessionTracker dump:\nSession Sets (%d)/(%d):\n", len(sets), len(s.sessions))
	for _, at := range slices.SortedFunc(maps.Keys(sets), time.Time.Compare) {
		fmt.Fprintf(&b, "%d expire at %s:\n", len(sets[at]), at.Format(time.UnixDate))
		slices.Sort(sets[at])
		for _, id := range sets[at] {
			fmt.Fprintf(&b, "\t0x%x\n", id)
		}
	}
	ephemerals := s.leader.tree.ephemerals
	fmt.Fprintf(&b, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(ephemerals))
	for _, id := range slices.SortedFunc(maps.Keys(ephemerals), cmp.Compare[int64]) {
		fmt.Fprintf(&b, "0x%x:\n", id)
		for _, path := range s.leader.tree.ephemeralsOf(id) {
			fmt.Fprintf(&b, "\t%s\n", path)
		}
	}
	return b.String()
}

// watchReport returns the reply to wchs, which counts the watches of data and
// existence only (DataTree.dumpWatchesSummary). The caller holds mu.
func (s *Server) watchReport() string {
	conns, paths, total := map[*conn]bool{}, map[string]bool{}, 0
	count := func(r *replica) {
		for path, watchers := range r.dataWatches.table {
			paths[path] = true
			total += len(watchers)
			for c := range watchers {
				conns[c] = true
			}
		}
	}
	count(s.leader)
	for r := range s.lagging {
		count(r)
	}
	return fmt.Sprintf("%d connections watching %d paths\nTotal watches:%d\n", len(conns), len(paths), total)
}

// count returns the number of znodes as a real server reports it. It counts the
// root twice, because the empty path is an alias of it (DataTree).
func (t *tree) count() int { return len(t.nodes) + 1 }

func (t *tree) size() (bytes int) {
	for path, n := range t.nodes {
		bytes += len(path) + len(n.data)
	}
	return bytes
}
