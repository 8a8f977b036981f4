package zkkrb5_test

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zkkrb5"
)

// connect connects to servers that require Kerberos. The credentials are those of the process, which
// never closes them.
func connect(ctx context.Context, servers []string) (*zkrecipes.Client, error) {
	credentials, err := zkkrb5.New(zkkrb5.Config{
		Principal: "orders@EXAMPLE.COM",
		Keytab:    "/etc/orders.keytab",
	})
	if err != nil {
		return nil, err
	}
	return zkrecipes.Dial(ctx, servers, &zkrecipes.Options{SASL: credentials.SASL()})
}

func ExampleCredentials_SASL() {
	ctx := context.Background()
	client, err := connect(ctx, []string{"zk1.example.com", "zk2.example.com", "zk3.example.com"})
	if err != nil {
		return
	}
	defer client.Close()
}
