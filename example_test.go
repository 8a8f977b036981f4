package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"os"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// exampleClient connects to a ZooKeeper inside this process. In your service, pass the
// addresses of your servers to Dial.
func exampleClient() (client *zkrecipes.Client, stop func()) {
	srv, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	client, err = zkrecipes.Dial(context.Background(), []string{srv.Addr()}, &zkrecipes.Options{Identity: "billing-1"})
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		srv.Close()
	}
}

// ship stands for the work that the lock protects.
func ship(ctx context.Context, fence zkrecipes.Token) error {
	fmt.Println("shipped:", ctx.Err() == nil && fence > 0)
	return nil
}

func Example() {
	ctx := context.Background()
	srv, err := zktest.Start() // a ZooKeeper inside this process
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	servers := []string{srv.Addr()}

	// What follows is the first code in README.md, see docs_test.go.
	dialing, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client, err := zkrecipes.Dial(dialing, servers, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	orders := zkrecipes.NewMutex(client, "/locks/orders")
	err = orders.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		return ship(ctx, lease.Token()) // ctx ends if the lock is lost
	})

	if err != nil {
		log.Fatal(err)
	}
	// Output: shipped: true
}

// The context limits how long Dial waits for a server. The Client lives on after it, until Close
// or Shutdown.
func ExampleDial() {
	srv, err := zktest.Start() // a ZooKeeper inside this process
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	servers := []string{srv.Addr()}

	dialing, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := zkrecipes.Dial(dialing, servers, nil)
	if err != nil {
		log.Fatal(err) // no server has answered in time, or an argument is invalid
	}
	defer client.Close()
	fmt.Println("connected:", client.Status().Connected)
	// Output: connected: true
}

// All paths are below the prefix, only this identity may change what the client creates, and
// problems are logged.
func ExampleOptions() {
	srv, err := zktest.Start() // a ZooKeeper inside this process
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()

	ctx := context.Background()
	client, err := zkrecipes.Dial(ctx, []string{srv.Addr()}, &zkrecipes.Options{
		SessionTimeout: 20 * time.Second, // after that, the locks of a dead process are free
		Prefix:         "/billing",
		Identity:       "billing-7", // what Contenders shows
		Auth:           []zkrecipes.Auth{{Scheme: "digest", Data: []byte("billing:" + os.Getenv("ZK_PASSWORD"))}},
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lease, err := zkrecipes.NewMutex(client, "/locks/invoices").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	fmt.Println("timeout:", client.Status().Timeout)
	fmt.Println(lease.Path(), "is among", srv.Children("/billing/locks"), "below /billing/locks")
	// Output:
	// timeout: 20s
	// /locks/invoices is among [invoices] below /billing/locks
}

func ExampleParseServers() {
	servers, prefix, err := zkrecipes.ParseServers("zk1:2181,zk2:2181/app")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(servers, prefix) // for Dial and Options.Prefix
	// Output: [zk1:2181 zk2:2181] /app
}

// A Trace carries what metrics and spans need. The modules zkprom and zkotel have one each.
func ExampleTrace() {
	ctx := context.Background()
	srv, err := zktest.Start() // a ZooKeeper inside this process
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()

	traced := make(chan struct{})
	client, err := zkrecipes.Dial(ctx, []string{srv.Addr()}, &zkrecipes.Options{Trace: &zkrecipes.Trace{
		AcquireEnd: func(_ context.Context, e zkrecipes.TraceAcquireEnd) {
			fmt.Println(e.Recipe, e.Path, "waited:", e.Wait > 0, "error:", e.Err)
		},
		HoldEnd: func(e zkrecipes.TraceHoldEnd) {
			fmt.Println(e.Recipe, e.Path, "held:", e.Held > 0, "error:", e.Err)
			close(traced)
		},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lease, err := zkrecipes.NewMutex(client, "/locks/traced").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := lease.Release(); err != nil {
		log.Fatal(err)
	}
	<-traced // the functions are called from a goroutine of their own
	// Output:
	// mutex /locks/traced waited: true error: <nil>
	// mutex /locks/traced held: true error: <nil>
}

// Status sends nothing, so it suits a health check that runs often. Ping asks a server.
func ExampleClient_Status() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()
	lease, err := zkrecipes.NewMutex(client, "/locks/inventory").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()

	status := client.Status()
	fmt.Println("connected:", status.Connected, "with a session timeout of", status.Timeout)
	fmt.Println("znodes that end with the session:", status.Znodes)
	fmt.Println("a server answers:", client.Ping(ctx) == nil)
	// Output:
	// connected: true with a session timeout of 10s
	// znodes that end with the session: 1
	// a server answers: true
}

// Shutdown grants nothing more, and waits until the holders have released. Its context limits the
// wait.
func ExampleClient_Shutdown() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()
	nightly := zkrecipes.NewMutex(client, "/locks/nightly")
	lease, err := nightly.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	stopped := make(chan error)
	go func() { // on SIGTERM
		deadline, cancel := context.WithTimeout(ctx, 25*time.Second)
		defer cancel()
		stopped <- client.Shutdown(deadline)
	}()
	_, err = nightly.Lock(ctx) // waits for the holder, until Shutdown begins
	fmt.Println("refused:", errors.Is(err, zkrecipes.ErrClosed))
	fmt.Println("the holder may finish:", lease.Err() == nil)
	if err := lease.Release(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("stopped:", <-stopped)
	// Output:
	// refused: true
	// the holder may finish: true
	// stopped: <nil>
}

// readLimits has code of docs/reads.md, see docs_test.go.
func readLimits(ctx context.Context, client *zkrecipes.Client) ([]byte, error) {
	if err := client.Ping(ctx); err != nil {
		return nil, err
	}
	data, _, err := client.Get(ctx, "/settings/limits")
	return data, err
}

// Watch yields what there is, and what it has become after each change.
func ExampleClient_Watch() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()
	for node, err := range client.Watch(ctx, "/settings/limits") {
		switch {
		case err != nil:
			log.Print(err) // ctx has ended, or no permission: there is nothing to try again
			return
		case node.None():
			fmt.Println("defaults")
		default:
			fmt.Printf("%s, version %d\n", node.Data, node.Stat.Version)
		}
		// Another process would do this. If it fails, the loop would wait for ever.
		switch {
		case node.None():
			_, err = client.Commit(ctx, zkrecipes.OpCreate("/settings/limits", []byte("limit=10"), 0, nil).WithParents())
		case node.Stat.Version == 0:
			_, err = client.Commit(ctx, zkrecipes.OpSet("/settings/limits", []byte("limit=20"), 0))
		default:
			data, err := readLimits(ctx, client)
			fmt.Println(string(data), err)
			return
		}
		if err != nil {
			log.Print(err)
			return
		}
	}
	// Output:
	// defaults
	// limit=10, version 0
	// limit=20, version 1
	// limit=20 <nil>
}

// A copy of a tree of settings.
func ExampleClient_WatchTree() {
	client, stop := exampleClient()
	defer stop()
	fmt.Println(followSettings(context.Background(), client))
	// Output:
	// map[]
	// map[/settings:parent /settings/limits:limit=10]
	// <nil>
}

// followSettings has code of docs/reads.md, see docs_test.go.
func followSettings(ctx context.Context, client *zkrecipes.Client) error {
	settings := map[string]zkrecipes.Node{}
	for changed, err := range client.WatchTree(ctx, "/settings", nil) {
		if err != nil {
			return err
		}
		maps.Copy(settings, changed)
		maps.DeleteFunc(settings, func(_ string, n zkrecipes.Node) bool { return n.None() })

		texts := map[string]string{}
		for path, n := range settings {
			texts[path] = string(n.Data)
		}
		fmt.Println(texts)
		if len(settings) == 2 {
			break
		}
		// Another process would do this.
		_, err := client.Commit(ctx,
			zkrecipes.OpCreate("/settings", []byte("parent"), 0, nil),
			zkrecipes.OpCreate("/settings/limits", []byte("limit=10"), 0, nil))
		if err != nil {
			return err
		}
	}
	return nil
}

// Whoever waits for longer than a minute is evicted: its Lock returns ErrEvicted.
func ExampleClient_Evict() {
	ctx := context.Background()
	client, stop := exampleClient()
	defer stop()

	contenders, err := zkrecipes.NewMutex(client, "/locks/imports").Contenders(ctx)
	if err != nil && !errors.Is(err, zkrecipes.ErrUnused) {
		log.Fatal(err)
	}
	for _, c := range contenders {
		if c.Held || time.Since(c.Since) < time.Minute {
			continue
		}
		evicted, err := client.Evict(ctx, c, nil)
		switch {
		case errors.Is(err, zkrecipes.ErrHolder): // it was granted the lock meanwhile
		case err != nil:
			log.Fatal(err)
		default:
			log.Println("evicted", evicted, c.Identity)
		}
	}
	// Output:
}
