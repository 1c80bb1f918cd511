package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Opener {
		path := filepath.Join(t.TempDir(), "rate limit", "tally.db")
		return func(ctx context.Context) (storage.Store, error) {
			return Open(ctx, Options{Path: path})
		}
	})
}
