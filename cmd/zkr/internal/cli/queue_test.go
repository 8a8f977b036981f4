//go:build unix

package cli

import (
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestASignalEndsPutWhileItReads(t *testing.T) {
	srv := zktest.NewServer(t)
	q := zkrecipes.NewQueue(recipetest.DialTo(t, []string{srv.Addr()}, nil), "/q", nil)
	put := func(flags ...string) (typed io.Writer, interrupt func()) {
		r, w := io.Pipe()
		t.Cleanup(func() { w.Close() })
		a := &app{stdin: r, stdout: io.Discard, stderr: io.Discard, signals: make(chan os.Signal, 1)}
		code := make(chan int, 1)
		go func() { code <- a.run(append([]string{"queue", "put", "/q", "-S", srv.Addr()}, flags...)) }()
		return w, func() {
			a.signals <- syscall.SIGINT
			select {
			case got := <-code:
				require.Equal(t, 130, got)
			case <-time.After(time.Minute):
				require.FailNow(t, "it reads on")
			}
		}
	}
	typed, interrupt := put("--lines")
	_, err := io.WriteString(typed, "first\n")
	require.NoError(t, err)
	_, err = io.WriteString(typed, "second") // which is read once the first was put
	require.NoError(t, err)
	interrupt()

	typed, interrupt = put()
	_, err = io.WriteString(typed, "third")
	require.NoError(t, err)
	interrupt()

	n, err := q.Len(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n, "what was put stays, and a part of an item is none")
}
