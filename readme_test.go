package zkrecipes_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The code blocks of README.md and doc.go are copies of examples and of the test
// below, which are compiled and run.
func TestReadmeCodeIsCompiledAndRun(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(data)
	}
	blocks := strings.Split(read("README.md"), "\n```go\n")
	require.Len(t, blocks, 7)
	first, _, _ := strings.Cut(blocks[1], "```\n")
	require.Contains(t, read("example_test.go"), indent(first, "\t"))
	require.Contains(t, read("doc.go"), indent(first, "//\t"))
	barrier, _, _ := strings.Cut(blocks[2], "```\n")
	require.Contains(t, read("example_barrier_test.go"), indent(barrier, "\t"))
	queue, _, _ := strings.Cut(blocks[3], "```\n")
	require.Contains(t, read("example_queue_test.go"), indent(queue, "\t"))
	slot, _, _ := strings.Cut(blocks[4], "```\n")
	require.Contains(t, read("example_semaphore_test.go"), indent(slot, "\t"))
	term, _, _ := strings.Cut(blocks[5], "```\n")
	require.Contains(t, read("example_election_test.go"), indent(term, "\t"))
	last, _, _ := strings.Cut(blocks[6], "```\n")
	require.Contains(t, read("readme_test.go"), last)
}

func TestWorkStopsWhenItsLockIsLost(t *testing.T) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()

	orders := zkrecipes.NewMutex(client, "/locks/orders")
	err = orders.Do(t.Context(), func(ctx context.Context, _ *zkrecipes.Lease) error {
		srv.Expire(srv.Sessions()[0].ID)
		<-ctx.Done() // stands for the work
		return nil
	})
	require.ErrorIs(t, err, zkrecipes.ErrLost)
}

func TestASlotAndATermAreHeldWhileTheirFunctionRuns(t *testing.T) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()

	require.NoError(t, exportInASlot(t.Context(), client, func(_ context.Context, slot int) error {
		require.Zero(t, slot)
		return nil
	}))
	require.NoError(t, leadBilling(t.Context(), client, func(_ context.Context, token zkrecipes.Token) error {
		require.Positive(t, token)
		return nil
	}))
}

// indent puts a prefix before each line and, as gofmt does, leaves no white space at
// the end of a line.
func indent(block, prefix string) string {
	var b strings.Builder
	for line := range strings.Lines(block) {
		b.WriteString(strings.TrimRight(prefix+strings.TrimSuffix(line, "\n"), "\t"))
		b.WriteByte('\n')
	}
	return b.String()
}
