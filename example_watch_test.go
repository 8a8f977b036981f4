package zkrecipes_test

import (
	"context"
	"fmt"
	"log"

	"github.com/zkrecipes/zkrecipes"
)

// readConfig has code of docs/reads.md, see docs_test.go.
func readConfig(ctx context.Context, client *zkrecipes.Client) ([]byte, error) {
	if err := client.Ping(ctx); err != nil {
		return nil, err
	}
	data, _, err := client.Get(ctx, "/services/billing/config")
	return data, err
}

// Watch yields what there is, and what it has become after each change.
func ExampleClient_Watch() {
	ctx := context.Background()
	client, stop := electionClient()
	defer stop()
	write := func(op zkrecipes.Op) {
		err := zkrecipes.NewMutex(client, "/services/billing/lock").Do(ctx, func(ctx context.Context, l *zkrecipes.Lease) error {
			_, err := l.Commit(ctx, op)
			return err
		})
		if err != nil {
			log.Print(err)
		}
	}
	for node, err := range client.Watch(ctx, "/services/billing/config") {
		switch {
		case err != nil:
			log.Print(err) // ctx has ended, or no permission: there is nothing to try again
			return
		case node.None():
			fmt.Println("defaults")
		default:
			fmt.Printf("%s, version %d\n", node.Data, node.Stat.Version)
		}
		// Another process would do this.
		switch {
		case node.None():
			write(zkrecipes.OpCreate("/services/billing/config", []byte("limit=10"), 0, nil))
		case node.Stat.Version == 0:
			write(zkrecipes.OpSet("/services/billing/config", []byte("limit=20"), 0))
		default:
			data, err := readConfig(ctx, client)
			fmt.Println(string(data), err)
			return
		}
	}
	// Output:
	// defaults
	// limit=10, version 0
	// limit=20, version 1
	// limit=20 <nil>
}
