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
	{Name: "srvr", Exclusive: true, Run: func(s *Script) {
		s.Connect("a")
		before := s.number(s.FourLetterWord("srvr"), `Node count: (\d+)`)
		s.Equal(s.number(s.FourLetterWord("mntr"), `zk_znode_count\t(\d+)`), before, "the same count")
		s.Equal(true, regexp.MustCompile(`(?m)^Zookeeper version: 3\.\d\.\d+-.*, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC$`).
			MatchString(s.FourLetterWord("srvr")), "a version")
	}},
	{Name: "stat", Exclusive: true, Run: two(func(s *Script, a, b *Client) {
		a.Ok(GetChildren(s.Path(""), true))
		b.Ok(Create(s.Path("n"), nil, Open, 0))
		clients, rest, _ := strings.Cut(s.FourLetterWord("stat"), "\n\n")
		for _, line := range sortedMatches(clients, `\[\d\]\(queued=\d+,recved=\d+,sent=\d+\)`) {
			s.Note("%s", line)
		}
		for line := range strings.Lines(rest) {
			key, _, _ := strings.Cut(line, ":")
			s.Note("%s", key)
		}
	})},
	{Name: "cons", Exclusive: true, Run: func(s *Script) {
		s.ConnectFor("a", 3000)
		// The milliseconds since 1970, which differ.
		text := regexp.MustCompile(`est=\d{13},`).ReplaceAllString(s.FourLetterWord("cons"), "est=ms,")
		for _, line := range sortedMatches(text, `\[1\]\(queued=\d+,recved=|,est=ms,|to=\d+|sid=0x`) {
			s.Note("%s", line)
		}
	}},
	{Name: "conf", Exclusive: true, Run: func(s *Script) {
		for _, line := range sortedMatches(s.FourLetterWord("conf"), `(?m)^(tickTime|maxClientCnxns|minSessionTimeout|maxSessionTimeout|serverId)=\d+$`) {
			s.Note("%s", line)
		}
	}},
	{Name: "dump", Exclusive: true, Run: one(func(s *Script, a *Client) {
		a.Ok(Create(s.Path("e"), nil, Open, jute.FlagEphemeral))
		// zktest has no sets of connections.
		dump, _, _ := strings.Cut(s.FourLetterWord("dump"), "Connections dump:")
		lines := sortedMatches(dump, `(?m)^(SessionTracker dump:|Session Sets |\d+ expire at \w+ \w+ \d+ \d\d:\d\d:\d\d UTC \d{4}:|ephemeral nodes dump:|Sessions with Ephemerals \(1\):|\t/.*)`)
		for i, line := range lines {
			lines[i] = regexp.MustCompile(`\d+`).ReplaceAllString(strings.ReplaceAll(line, s.root, "~"), "#")
		}
		s.Note("%q", slices.Compact(lines)) // how many sets of sessions there are depends on earlier cases
	})},
	{Name: "wchs", Exclusive: true, Run: two(func(s *Script, a, b *Client) {
		a.Ok(GetData(s.Path(""), true))
		a.Ok(GetChildren(s.Path(""), true))
		a.Fails(jute.ErrNoNode, Exists(s.Path("n"), true))
		b.Ok(GetData(s.Path(""), true))
		b.Ok(AddWatch(s.Path(""), jute.WatchPersistent))
		s.Note("%s", s.FourLetterWord("wchs"))
	})},
}

// number returns the first number in text that the pattern finds.
func (s *Script) number(text, pattern string) string {
	s.t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		s.t.Fatalf("no %s in %q", pattern, text)
	}
	return found[1]
}

func sortedMatches(text, pattern string) []string {
	return slices.Sorted(slices.Values(regexp.MustCompile(pattern).FindAllString(text, -1)))
}
