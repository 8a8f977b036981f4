package conformance

import (
	"regexp"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// The words that tests and monitoring ask for. What they tell of files, latencies
// and addresses differs from run to run.
var fourLetterCases = []Case{
	{Name: "ruok", Run: func(s *Script) {
		s.Equal("imok", s.FourLetterWord("ruok"), "imok")
	}},
	{Name: "srvr", Run: one(func(s *Script, a *Client) {
		answer := s.FourLetterWord("srvr")
		version := regexp.MustCompile(`^Zookeeper version: ` + s.server.Version.String() + `\.\d+-.*, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC\n`)
		s.Equal(true, version.MatchString(answer), answer)
		for line := range strings.Lines(answer) {
			key, value, _ := strings.Cut(line, ": ")
			switch key {
			case "Mode":
				s.Note("%s %q", key, value)
			case "Proposal sizes last/min/max": // only an ensemble has proposals
			default:
				s.Note("key %q", key)
			}
		}
	})},
	{Name: "stat", Run: two(func(s *Script, a, b *Client) {
		a.Ok(GetChildren(root, true))
		b.Ok(Plain(n))
		clients, rest, _ := strings.Cut(s.FourLetterWord("stat"), "\n\n")
		s.noteMatches(clients, `\[\d\]\(queued=\d+,recved=\d+,sent=\d+\)`)
		for line := range strings.Lines(rest) {
			key, _, _ := strings.Cut(line, ":")
			s.Note("%s", key)
		}
	})},
	{Name: "mntr", Run: one(func(s *Script, a *Client) {
		values := map[string]string{}
		for line := range strings.Lines(s.FourLetterWord("mntr")) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
			values[key] = value
		}
		// There are hundreds of keys, most of them specific to a version.
		for _, key := range []string{
			"zk_version", "zk_server_state", "zk_num_alive_connections", "zk_outstanding_requests",
			"zk_packets_received", "zk_packets_sent", "zk_znode_count", "zk_watch_count",
			"zk_ephemerals_count", "zk_approximate_data_size", "zk_avg_latency", "zk_max_latency", "zk_min_latency",
		} {
			s.Equal(true, values[key] != "", key)
		}
		s.Note("state %s", values["zk_server_state"])
		count := regexp.MustCompile(`Node count: (\d+)`).FindStringSubmatch(s.FourLetterWord("srvr"))
		s.Equal([]string{"Node count: " + values["zk_znode_count"], values["zk_znode_count"]}, count, "the same count")
	})},
	{Name: "cons", Run: func(s *Script) {
		s.ConnectFor("a", 3000)
		// The milliseconds since 1970, which differ.
		text := regexp.MustCompile(`est=\d{13},`).ReplaceAllString(s.FourLetterWord("cons"), "est=ms,")
		s.noteMatches(text, `\[1\]\(queued=\d+,recved=|,est=ms,|to=\d+|sid=0x`)
	}},
	{Name: "conf", Run: func(s *Script) {
		s.noteMatches(s.FourLetterWord("conf"), `(?m)^(tickTime|maxClientCnxns|minSessionTimeout|maxSessionTimeout|serverId)=\d+$`)
	}},
	{Name: "dump", Run: one(func(s *Script, a *Client) {
		a.Ok(Ephemeral("/case/e"))
		// zktest has no sets of connections.
		dump, _, _ := strings.Cut(s.FourLetterWord("dump"), "Connections dump:")
		lines := sortedMatches(dump, `(?m)^(SessionTracker dump:|Session Sets |\d+ expire at \w+ \w+ \d+ \d\d:\d\d:\d\d UTC \d{4}:|ephemeral nodes dump:|Sessions with Ephemerals \(1\):|\t/.*)`)
		for i, line := range lines {
			lines[i] = regexp.MustCompile(`\d+`).ReplaceAllString(line, "#")
		}
		s.Note("%q", slices.Compact(lines)) // how many sets of sessions there are depends on earlier cases
	})},
	{Name: "wchs", Run: two(func(s *Script, a, b *Client) {
		a.Ok(GetData(root, true), GetChildren(root, true))
		a.Fails(jute.ErrNoNode, Exists(n, true))
		b.Ok(GetData(root, true), AddWatch(root, jute.WatchPersistent))
		s.Note("%s", s.FourLetterWord("wchs"))
	})},
	// The server takes it for the length of a frame, which is too large.
	raw("an unknown word", []byte("what")),
}

// noteMatches adds what the pattern matches to the transcript, sorted.
func (s *Script) noteMatches(text, pattern string) {
	for _, match := range sortedMatches(text, pattern) {
		s.Note("%s", match)
	}
}

func sortedMatches(text, pattern string) []string {
	return slices.Sorted(slices.Values(regexp.MustCompile(pattern).FindAllString(text, -1)))
}
