package servertest

import (
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest/suite"
)

// The ratio that docs/fencing.md has, of medians: a transaction of one UPDATE with a fence and without, which
// take turns on one connection.
func BenchmarkFence(b *testing.B) {
	sqlite, err := dbtest.Start(b.Context(), "sqlite")
	require.NoError(b, err)
	b.Cleanup(sqlite.Close)
	for _, d := range append(databases, sqlite) {
		b.Run(d.Name, func(b *testing.B) {
			w, ctx := suite.NewWorld(b, d, nil), b.Context()
			w.DB.SetMaxOpenConns(1)
			write := func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE "+w.Balances+" SET balance = balance + 1 WHERE id = 1")
				return err
			}
			plain := func() error {
				tx, err := w.DB.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer tx.Rollback()
				if err := write(tx); err != nil {
					return err
				}
				return tx.Commit()
			}
			fenced := func() error { return w.Fence.Do(ctx, fence.Tokens{"/locks/orders": 256}, write) }
			var plains, fenceds []time.Duration
			for b.Loop() {
				began := time.Now()
				require.NoError(b, plain())
				between := time.Now()
				require.NoError(b, fenced())
				plains, fenceds = append(plains, between.Sub(began)), append(fenceds, time.Since(between))
			}
			slices.Sort(plains)
			slices.Sort(fenceds)
			b.ReportMetric(float64(fenceds[len(fenceds)/2])/float64(plains[len(plains)/2]), "fenced/plain")
		})
	}
}
