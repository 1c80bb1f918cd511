package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/charges"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Of all charges with an id one takes effect, and no unit is given back twice, in one process and in three.
func TestChargesTakeEffectOnce(t *testing.T) {
	t.Parallel()
	for _, p := range []limiter.Params{
		{Amount: 10_000, Window: 24 * time.Hour},
		{Algorithm: limiter.Fixed, Amount: 10_000, Window: 24 * time.Hour},
	} {
		for _, processes := range []int{1, 3} {
			t.Run(fmt.Sprintf("%v, %d processes", p.Algorithm, processes), func(t *testing.T) {
				t.Parallel()
				var engines []*engine.Engine
				for path := filepath.Join(t.TempDir(), "tally.db"); len(engines) < processes; {
					engines = append(engines, chargingEngine(t, path))
				}
				charges.Check(t, &engine.Limit{ID: 1, Rate: newLimit(t, p)}, engines...)
			})
		}
	}
}

// chargingEngine starts an engine on a database.
func chargingEngine(t *testing.T, path string) *engine.Engine {
	t.Helper()
	e := engine.New(engine.Options{
		Open:         func(ctx context.Context) (storage.Store, error) { return Open(ctx, patientOptions(path)) },
		Name:         namesOf,
		StoreTimeout: 10 * time.Minute,
	})
	t.Cleanup(func() { e.Close(context.Background()) })
	<-e.Ready()
	return e
}

// No id takes effect twice when the database is removed.
func TestIDsOutliveADatabase(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	limit := newLimit(t, limiter.Params{Amount: 10_000, Window: 24 * time.Hour})
	charges.Outlive(t, &engine.Limit{ID: 1, Rate: limit}, chargingEngine(t, filepath.Join(folder, "tally.db")), func() {
		files, err := filepath.Glob(filepath.Join(folder, "tally.db*"))
		for _, file := range files {
			err = errors.Join(err, os.Remove(file))
		}
		if err != nil {
			t.Error(err)
		}
	})
}
