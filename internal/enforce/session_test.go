package enforce

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/storage"
)

// hungStore is a store whose opening blocks until hung is closed, and then fails.
type hungStore struct {
	stores.Store
	hung chan struct{}
}

func (s hungStore) Open(context.Context, time.Duration) (storage.Store, error) {
	<-s.hung
	return nil, os.ErrClosed
}

// A store that hangs while it is opened delays clients with a session no longer than others: for a
// while after the start, and then no more.
func TestSessionsDoNotWaitForAStoreThatHangs(t *testing.T) {
	for what, hasSecret := range map[string]bool{"before the secret": false, "after it": true} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tally.key")
			synctest.Test(t, func(t *testing.T) {
				hung := make(chan struct{})
				inst := instance.New(instance.Settings{Secret: path}, hungStore{hung: hung})
				time.Sleep(instance.ReadyTimeout)
				if !hasSecret {
					inst.Names.Secret.Store(nil)
				}
				cfg := &Config{Session: new(Sessions)}
				cfg.Instance.Store(inst)
				before := time.Now()
				keys := cfg.Session.Ready(t.Context(), cfg)
				if waited := time.Since(before); waited > 0 {
					t.Errorf("waited %v", waited)
				}
				if (keys != nil) != hasSecret {
					t.Errorf("keys: %v", keys)
				}
				close(hung)
				if err := inst.Destruct(); err != nil {
					t.Log(err)
				}
			})
		})
	}
}
