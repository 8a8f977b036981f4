package zkrecipes_test

import (
	"context"
	"fmt"
	"log"

	"github.com/zkrecipes/zkrecipes"
)

// A process joins, and any process watches who is there.
func ExampleGroup() {
	ctx := context.Background()
	client, stop := electionClient()
	defer stop()
	group := zkrecipes.NewGroup(client, "/services/search")
	member, err := group.Join(ctx, []byte("10.0.0.7:9000"), zkrecipes.MemberID("search-7"))
	if err != nil {
		log.Fatal(err)
	}
	defer member.Leave()
	for members, err := range group.Watch(ctx) {
		if err != nil {
			log.Print(err)
			return
		}
		for _, m := range members {
			fmt.Printf("%s at %s\n", m.ID, m.Data)
		}
		if string(members[0].Data) == "draining" {
			return
		}
		if err := member.Update(ctx, []byte("draining")); err != nil {
			log.Print(err)
			return
		}
	}
	// Output:
	// search-7 at 10.0.0.7:9000
	// search-7 at draining
}

// joinSearch has code of docs/members.md, see docs_test.go.
func joinSearch(ctx context.Context, client *zkrecipes.Client, serve func(context.Context)) {
	group := zkrecipes.NewGroup(client, "/services/search")
	member, err := group.Join(ctx, []byte("10.0.0.7:9000"))
	if err != nil {
		log.Fatal(err)
	}
	defer member.Leave()
	serve(ctx)
}

// Members asks once who is there.
func ExampleGroup_Members() {
	ctx := context.Background()
	client, stop := electionClient()
	defer stop()
	joinSearch(ctx, client, func(ctx context.Context) {
		members, err := zkrecipes.NewGroup(client, "/services/search").Members(ctx)
		fmt.Println(len(members), err)
	})
	// Output: 1 <nil>
}
