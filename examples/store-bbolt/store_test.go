package bboltstore

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

func TestStore(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Opener {
		path := filepath.Join(t.TempDir(), "tally.bolt")
		return func(ctx context.Context) (storage.Store, error) {
			s, err := Open(ctx, Options{Path: path, NoSync: true})
			if err != nil {
				return nil, err
			}
			return s, nil
		}
	})
}
