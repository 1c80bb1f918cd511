package tally

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/history"
)

// ledgers hold what is counted and not written yet, by the settings of an instance. The
// instance and all configurations that use it have the same one, so nothing is lost or
// counted twice when one configuration replaces another.
var ledgers = caddy.NewUsagePool()

func newLedger() (caddy.Destructor, error) { return new(history.Ledger), nil }

// openLedger returns the ledger of some settings. It must be given up with closeLedger.
func openLedger(s settings) (*history.Ledger, error) {
	ledger, _, err := ledgers.LoadOrNew(s, newLedger)
	if err != nil {
		return nil, err
	}
	return ledger.(*history.Ledger), nil
}

func closeLedger(s settings) error {
	_, err := ledgers.Delete(s)
	return err
}
