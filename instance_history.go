package tally

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file has how an instance writes the history.

// startHistory begins to write what is counted.
func (h *instance) startHistory(ledger *history.Ledger) {
	h.reporter = history.Start(history.Options{
		Ledger:   ledger,
		Store:    h.historian,
		Now:      h.engine.Now,
		Name:     h.nameInHistory,
		Observer: h,
	})
}

// stopHistory writes what is left. It doesn't wait for long, so that the engine has time to
// give back what is unspent.
func (h *instance) stopHistory() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout/4)
	defer cancel()
	if err := h.reporter.Close(ctx); err != nil {
		return fmt.Errorf("the last minutes of the history could not be written: %w", err)
	}
	return nil
}

// historian returns the store that is in use as one that keeps the history, or nil if there
// is none at the moment.
func (h *instance) historian() storage.Historian {
	switch store := h.store.Load(); {
	case store == nil:
		return nil
	default:
		if historian, ok := (*store).(storage.Historian); ok {
			return historian
		}
		return noHistory{}
	}
}

// noHistory takes the place of a store that keeps no history.
type noHistory struct{}

func (noHistory) Report(context.Context, int64, storage.Report) error { return nil }

func (noHistory) History(context.Context, storage.HistoryQuery) ([]storage.Point, error) {
	return nil, nil
}

func (noHistory) Heaviest(context.Context, storage.HistoryQuery, int) ([]storage.Heavy, error) {
	return nil, nil
}

// seedHistory sets what keys are hashed under to tell how many different ones came.
func seedHistory(ledger *history.Ledger, secret *identity.Secret) error {
	keys, err := secret.Derive("different keys in the history")
	if err == nil {
		ledger.SetSeed(binary.BigEndian.Uint64(keys[0]) | 1)
	}
	return err
}

// nameInHistory names a key of a series at rest. The name of an address is another every
// day, so that the next day nobody can link it.
func (h *instance) nameInHistory(of storage.Series, key string) (storage.Key, error) {
	names, err := h.namesInHistory(of, key)
	return names[0], err
}

// errNoSecret says that keys can't be named yet.
var errNoSecret = errors.New("the secret is not known")

// namesInHistory returns the names that a key has today and had yesterday.
func (h *instance) namesInHistory(of storage.Series, key string) (names [2]storage.Key, err error) {
	if h.secret.Load() == nil {
		return names, errNoSecret
	}
	hash, err := atrest.HashKey(h.lastingNames(), h.epochs, historyScope(of), key, 24*time.Hour, h.lasting())
	return [2]storage.Key{hash.Current, hash.Former}, err
}

// historyScope returns the scope of the names of a series.
func historyScope(of storage.Series) uint64 {
	return xxhash.Sum64String("history of " + of.Zone + "\x00" + of.Limit)
}

// HistoryWaits implements history.Observer.
func (h *instance) HistoryWaits(err error) {
	caddyconf.Logger().Warn("the history can't be written; it is kept in memory, for some hours at most, until it can",
		h.settings.where(), zap.Error(err))
}

// HistoryWritten implements history.Observer.
func (h *instance) HistoryWritten(givenUp int) {
	caddyconf.Logger().Info("the history is written again", h.settings.where(), zap.Int("minutes_given_up", givenUp))
}

var _ history.Observer = (*instance)(nil)

// past returns the store as one that has a history, or an error that says why there is none.
func (h *instance) past() (storage.Historian, error) {
	switch store := h.historian(); store.(type) {
	case nil:
		return nil, operator.Errorf(http.StatusServiceUnavailable, "the store can't be used at the moment, and the history is in it")
	case noHistory:
		return nil, operator.Errorf(http.StatusNotImplemented, "the store %s keeps no history", h.settings.kind)
	default:
		return store, nil
	}
}
