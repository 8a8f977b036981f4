package costs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// statement says which rows of the golden file count what a row of docs/costs.md states.
type statement struct {
	rows string         // their names: the sum of those with " + " between them; each of those with " | "
	n    int            // of the members, for a cell like "2n + 2"
	says map[string]int // what a cell in words means for these rows, if need be with its column's title before it
	less int            // requests and commits of the rows that the document states elsewhere
}

// A cell that is a number, or a sum such as 2n + 1.
var formula = regexp.MustCompile(`^(?:(\d*)(n)(?: ([+-]) (\d+))?|(\d+))$`)

// value returns the number that a cell states.
func (s statement) value(title, cell string) (v int, ok bool) {
	m := formula.FindStringSubmatch(cell)
	switch {
	case m == nil:
		if v, ok = s.says[title+": "+cell]; ok {
			return v, true
		}
		v, ok = s.says[cell]
		return v, ok
	case m[5] != "":
		v, _ = strconv.Atoi(m[5])
		return v, true
	case s.n == 0:
		return 0, false
	}
	v = s.n
	if times, err := strconv.Atoi(m[1]); err == nil {
		v *= times
	}
	if more, err := strconv.Atoi(m[4]); err == nil && m[3] == "-" {
		v -= more
	} else if err == nil {
		v += more
	}
	return v, true
}

// figures returns the requests and the commits of these rows together.
func figures(t *testing.T, want map[string]string, rows string) (requests, commits int) {
	for name := range strings.SplitSeq(rows, " + ") {
		text, ok := want[name]
		require.True(t, ok, "%s has no row %q", golden, name)
		fields := strings.Fields(text)
		r, err := strconv.Atoi(fields[0])
		require.NoError(t, err)
		c, err := strconv.Atoi(fields[1])
		require.NoError(t, err)
		requests, commits = requests+r, commits+c
	}
	return requests, commits
}

// docRow is a row of a table of the document that has a column for requests.
type docRow struct {
	file, name string
	cells      map[string]string // by the column's title
}

// docRows returns these rows of all tables.
func docRows(file, text string) (rows []docRow) {
	var titles []string
	above := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			titles, above = nil, ""
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "`", "")
		}
		switch {
		case titles == nil:
			titles = cells
			continue
		case !slices.Contains(titles, "Requests") || strings.HasPrefix(cells[0], "---"):
			continue
		}
		name := cells[0]
		if strings.HasPrefix(name, "...") {
			name = above + " " + name
		} else {
			above = name
		}
		row := docRow{file: file, name: name, cells: map[string]string{}}
		for i, title := range titles[:min(len(titles), len(cells))] {
			row.cells[title] = cells[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// TestDocumentAgreesWithWhatIsCounted is about what docs/costs.md has, not about what it leaves
// out.
func TestDocumentAgreesWithWhatIsCounted(t *testing.T) {
	files, err := filepath.Glob("../../docs/costs*.md")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	want := readGolden(t)
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, row := range docRows(file, string(text)) {
			s, ok := stated[row.name]
			if !ok {
				if !slices.Contains(uncounted, row.name) {
					t.Errorf("%s states what %q costs. Name the rows that count it in stated, or add one", row.file, row.name)
				}
				continue
			}
			for rows := range strings.SplitSeq(s.rows, " | ") {
				requests, commits := figures(t, want, rows)
				for title, counted := range map[string]int{"Requests": requests - s.less, "Commits": commits - s.less} {
					cell, ok := row.cells[title]
					if !ok || cell == "" {
						continue
					}
					v, ok := s.value(title, cell)
					if !ok {
						t.Errorf("%s, %q: what number does %q mean? Say it in stated", row.file, row.name, cell)
					} else if v != counted {
						t.Errorf("%s says that %q costs %s %s, and %q are %d in %s", row.file, row.name, cell, strings.ToLower(title), rows, counted, golden)
					}
					checked++
				}
			}
		}
	}
	require.Greater(t, checked, 10, "figures")
}
