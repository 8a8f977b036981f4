//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// The commands on a real ZooKeeper. The other tests run them on zktest.
func TestReal(t *testing.T) {
	if os.Getenv("ZK_HARNESS") == "zktest" {
		t.Skip("runs on a real ZooKeeper")
	}
	provider, err := zkserver.Find(t.Context(), t.Logf)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, provider.Close()) })
	if servers := provider.External(); servers != nil {
		t.Run("plain", func(t *testing.T) { testReal(t, strings.Join(servers, ",")) })
		t.Skip("ZK_SERVERS says nothing of a secure port")
	}
	servers, clients := harness.NewCA(t), harness.NewCA(t)
	cert, key := harness.PEM(t, servers.Issue(t, "127.0.0.1"))
	node, err := provider.Start(t.Context(), zkserver.Config{TLS: &zkserver.TLS{
		Keystore: slices.Concat(key, cert), Truststore: clients.PEM(),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Remove(context.Background())) })
	t.Logf("on %s", provider)
	t.Run("plain", func(t *testing.T) { testReal(t, node.Addr()) })
	t.Run("TLS", func(t *testing.T) { checkTLS(t, node.SecureAddr(), servers, clients) })
}

// testReal uses each command below a path of its own.
func testReal(t *testing.T, server string) {
	root := fmt.Sprintf("/zkr-%d-%d", os.Getpid(), time.Now().UnixNano())
	run := func(args ...string) string { t.Helper(); return succeed(t, server, args...) }
	line := func(path string) []string { names, _ := places(t, server, path); return names }

	t.Run("lock", func(t *testing.T) {
		path := root + "/lock"
		code, _, _ := zkr(t, server, "lock", path, "-c", "exit 7")
		require.Equal(t, 7, code)
		holder := start(t, server, "lock", path, "-c", "echo held; sleep 600")
		holder.await("held")
		code, _, _ = zkr(t, server, "lock", path, "-n", "--", "true")
		require.Equal(t, 75, code)
		waiter := start(t, server, "lock", path, "-c", "echo held; sleep 600")
		eventually(t, "it waits", func() bool { return len(line(path)) == 2 })
		require.Regexp(t, path+` +mutex +1 +1 `, run("ls", root))
		holder.signal(syscall.SIGTERM)
		require.Equal(t, 143, holder.wait())
		waiter.await("held")
		run("evict", path, line(path)[0], "--holder", "--yes")
		require.Equal(t, 76, waiter.wait(), waiter.stderr.String())
	})
	t.Run("a stopped holder", func(t *testing.T) {
		path, file := root+"/stopped", newRecord(t)
		holder := start(t, server, "lock", path, "--session-timeout", "8s", "--", os.Args[0], "writer", string(file), "first", "spread")
		eventually(t, "the first writes", func() bool { return file.count("first") > 20 })
		successor := start(t, server, "lock", path, "--", os.Args[0], "writer", string(file), "second", "few")
		eventually(t, "the second waits", func() bool { return len(line(path)) == 2 })
		holder.signal(syscall.SIGSTOP)
		require.Zero(t, successor.wait(), successor.stderr.String())
		_, last := file.span(t, "first")
		first, _ := file.span(t, "second")
		require.Less(t, last, first)
		holder.signal(syscall.SIGCONT)
		require.Equal(t, 76, holder.wait(), holder.stderr.String())
	})
	t.Run("the other recipes", func(t *testing.T) {
		slot := start(t, server, "lock", root+"/slots", "-k", "2", "-c", `echo "slot $ZKR_SLOT"; sleep 600`)
		slot.await("slot 0")
		run("sem", "resize", root+"/slots", "3")
		leader := start(t, server, "elect", root+"/leader", "--value", "one:80", "-c", "echo leads; sleep 600")
		leader.await("leads")
		require.Equal(t, "ran\n", run("job", root+"/job", "--every", "876000h", "--", "echo", "ran"))
		require.Empty(t, run("job", root+"/job", "--every", "876000h", "--", "echo", "ran"))
		run("gate", "shut", root+"/gate")
		id := strings.TrimSpace(run("queue", "put", root+"/queue", "data"))
		require.Equal(t, "data", run("queue", "peek", root+"/queue"))
		for recipe, path := range map[string]string{
			"semaphore": "/slots", "election": "/leader", "gate": "/gate", "queue": "/queue",
		} {
			require.Regexp(t, root+path+` +`+recipe, run("ls", root))
			run("who", root+path)
		}
		run("queue", "remove", root+"/queue", id)
		run("gate", "open", root+"/gate")
		leader.signal(syscall.SIGTERM)
		slot.signal(syscall.SIGTERM)
		require.Equal(t, 143, leader.wait())
		require.Equal(t, 143, slot.wait())
	})
	t.Run("the page", func(t *testing.T) {
		path := root + "/page"
		holder := start(t, server, "lock", path, "-c", "echo held; sleep 600")
		holder.await("held")
		page := start(t, server, "serve", root, "--listen", "127.0.0.1:0")
		url := page.address()
		places := shownPlaces(t, url, path)
		places("true")
		waiter := start(t, server, "lock", path, "-c", "echo held; sleep 600")
		places("true false")
		holder.signal(syscall.SIGTERM)
		require.Equal(t, 143, holder.wait())
		waiter.await("held")
		places("true")
		waiter.signal(syscall.SIGTERM)
		require.Equal(t, 143, waiter.wait())
		places("")
		page.signal(syscall.SIGTERM)
		require.Equal(t, 143, page.wait())
	})
	t.Run("a deadlock", func(t *testing.T) {
		a, b := root+"/a", root+"/b"
		servers := strings.Split(server, ",")
		one, two := recipetest.DialTo(t, servers, nil), recipetest.DialTo(t, servers, nil)
		recipetest.LockOn(t, zkrecipes.NewMutex(one, a))
		recipetest.LockOn(t, zkrecipes.NewMutex(two, b))
		recipetest.LockLater(t, zkrecipes.NewMutex(one, b))
		evicted := recipetest.LockLater(t, zkrecipes.NewMutex(two, a))
		var g struct{ Deadlocks [][]string }
		eventually(t, "a deadlock", func() bool {
			require.NoError(t, json.Unmarshal([]byte(run("graph", root, "-o", "json")), &g))
			return len(g.Deadlocks) == 1 && len(g.Deadlocks[0]) == 2
		})
		run("evict", a, line(a)[1], "--yes")
		_, err := evicted.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrEvicted)
	})
}

// shownPlaces reads what the page shows of a line. The function that it returns waits until it
// shows places that hold (true) or do not (false), first to last.
func shownPlaces(t *testing.T, url, line string) (await func(held string)) {
	t.Helper()
	reply, err := http.Get(url + "events?line=" + line)
	require.NoError(t, err)
	t.Cleanup(func() { reply.Body.Close() })
	lines := bufio.NewReader(reply.Body)
	return func(want string) {
		t.Helper()
		tooLate := time.AfterFunc(time.Minute, func() { reply.Body.Close() })
		defer tooLate.Stop()
		for held := "nothing"; held != want; {
			text, err := lines.ReadString('\n')
			require.NoError(t, err, "%s, and last %s", want, held)
			var m struct {
				Line *struct{ Places []struct{ Held bool } }
			}
			data, ok := strings.CutPrefix(text, "data: ")
			if !ok {
				continue
			}
			require.NoError(t, json.Unmarshal([]byte(data), &m))
			if m.Line != nil {
				var all []string
				for _, p := range m.Line.Places {
					all = append(all, fmt.Sprint(p.Held))
				}
				held = strings.Join(all, " ")
			}
		}
	}
}
