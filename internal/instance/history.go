package instance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/cespare/xxhash/v2"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file writes an instance's history.

// startHistory begins to write the counts.
func (inst *Instance) startHistory(ledger *history.Ledger) {
	inst.reporter = history.Start(history.Options{
		Ledger:   ledger,
		Store:    inst.historian,
		Now:      inst.Engine.Now,
		Name:     inst.Names.inHistoryToday,
		Observer: observer{inst},
	})
}

// stopHistory writes the remaining counts. Its time is short, so that the engine has time to give
// back unspent units.
func (inst *Instance) stopHistory() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout/4)
	defer cancel()
	if err := inst.reporter.Close(ctx); err != nil {
		return fmt.Errorf("the last minutes of the history could not be written: %w", err)
	}
	return nil
}

// historian returns the store in use as a historian, or nil if none is in use at the moment.
func (inst *Instance) historian() storage.Historian {
	switch store := inst.Store.Load(); {
	case store == nil:
		return nil
	default:
		if historian, ok := (*store).(storage.Historian); ok {
			return historian
		}
		return noHistory{}
	}
}

// noHistory drops the counts for a store that keeps no history.
type noHistory struct{}

func (noHistory) Report(context.Context, int64, storage.Report) error { return nil }

func (noHistory) History(context.Context, storage.HistoryQuery) ([]storage.Point, error) {
	return nil, nil
}

func (noHistory) Heaviest(context.Context, storage.HistoryQuery, int) ([]storage.Heavy, error) {
	return nil, nil
}

// seedHistory sets the key of the hashes that count distinct keys.
func seedHistory(ledger *history.Ledger, secret *identity.Secret) {
	ledger.SetSeed(binary.BigEndian.Uint64(secret.Derive("different keys in the history")[0]) | 1)
}

// inHistoryToday returns the name at rest of a key in a series. The name of an address changes
// every day, so that the next day nobody can link it.
func (n *Names) inHistoryToday(series storage.Series, key string) (storage.Key, error) {
	names, err := n.InHistory(series, key)
	return names[0], err
}

// errNoSecret is the error of naming a key before it is known what names are made with.
var errNoSecret = errors.New("the secret is not known, or the store was never opened")

// InHistory returns the names of a key for today and for yesterday.
func (n *Names) InHistory(series storage.Series, key string) (names [2]storage.Key, err error) {
	if n.agreed.Load() == nil {
		return names, errNoSecret
	}
	hash, err := atrest.HashKey(n.lasting(), n.Epochs, historyScope(series), key, 24*time.Hour, n.instance.Lasting())
	return [2]storage.Key{hash.Current, hash.Former}, err
}

// historyScope returns the scope of the names of a series.
func historyScope(series storage.Series) uint64 {
	return xxhash.Sum64String("history of " + series.Zone + "\x00" + series.Limit)
}

// HistoryWaits implements history.Observer.
func (o observer) HistoryWaits(err error) {
	o.unwritten.Store(&operator.FileTrouble{Since: time.Now().UTC().Truncate(time.Second),
		Reason: WithRemedy(err).Error()})
	caddyconf.Logger().Warn("the history can't be written; it is kept in memory, for some hours at most, until it can",
		o.Settings.where(), zap.Error(err))
}

// HistoryWritten implements history.Observer.
func (o observer) HistoryWritten(givenUp int) {
	o.unwritten.Store(nil)
	caddyconf.Logger().Info("the history is written again", o.Settings.where(), zap.Int("minutes_given_up", givenUp))
}

var _ history.Observer = observer{}

// Past returns the store's history, or an error with the reason why there is none.
func (inst *Instance) Past() (storage.Historian, error) {
	switch store := inst.historian(); store.(type) {
	case nil:
		return nil, operator.Errorf(http.StatusServiceUnavailable,
			"the store can't be used at the moment, and the history is in it")
	case noHistory:
		return nil, operator.Errorf(http.StatusNotImplemented, "the store %s keeps no history: a store postgres does, or the file of one machine", inst.Settings.Kind)
	default:
		return store, nil
	}
}

// ledgers hold unwritten counts, by the counts of an instance. The instance and all its
// configurations share one, so nothing is lost or counted twice when one configuration replaces
// another.
var ledgers = caddy.NewUsagePool()

// OpenLedger returns the ledger for some settings. CloseLedger gives it up.
func OpenLedger(s Settings) *history.Ledger {
	ledger, _ := ledgers.LoadOrStore(s.counted(), new(history.Ledger))
	return ledger.(*history.Ledger)
}

func CloseLedger(s Settings) { _, _ = ledgers.Delete(s.counted()) } // returns no error
