package sqlite

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

var errStatement = errors.New("test: the statement failed")

// Commits and, less often, all other statements fail, before or after they take effect, while several
// processes claim. An order of atomic claims explains what they are answered.
func TestAtomicOverFaults(t *testing.T) {
	t.Parallel()
	for name, noJournal := range map[string]bool{"journal": false, "transactions": true} {
		t.Run(name, func(t *testing.T) {
			sometimes := func(query string) error {
				if query == "COMMIT" && rand.IntN(10) == 0 || rand.IntN(300) == 0 {
					return errStatement
				}
				return nil
			}
			path := filepath.Join(t.TempDir(), "tally.db")
			storagetest.Atomic(t, func() storage.Opener {
				f := new(faults)
				f.set(sometimes)
				f.setAfter(sometimes)
				o := patientOptions(path)
				o.NoJournal, o.journalSizes, o.connect = noJournal, smallJournal, f.connect
				return func(ctx context.Context) (storage.Store, error) { return Open(ctx, o) }
			}, true)
		})
	}
}
