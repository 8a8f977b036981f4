// Package operations has the code of docs/operations.md.
package operations

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// ShowContenders writes the holder of a lock and its waiters.
func ShowContenders(ctx context.Context, w io.Writer, orders *zkrecipes.Mutex) error {
	contenders, err := orders.Contenders(ctx)
	if err != nil {
		return err
	}
	for _, c := range contenders {
		fmt.Fprintf(w, "%s held=%t since=%s session=%#x place=%s\n",
			c.Identity, c.Held, c.Since.Format(time.RFC3339), uint64(c.Session), c.Place)
	}
	return nil
}
