package tally

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Provision checks the settings. It opens nothing: a configuration that is only
// looked at, or that turns out to be wrong elsewhere, leaves no trace.
func (a *App) Provision(ctx caddy.Context) error {
	a.log, a.warned = ctx.Logger(), make(map[string]bool)
	a.run = &enforce.Config{
		Log: a.log, Warn: a.warn, Running: make(chan struct{}), ZoneNames: make(map[uint32]string),
		IPv4Prefix: a.IPv4Prefix, IPv6Prefix: a.IPv6Prefix,
	}
	for _, step := range []func() error{
		func() error { return a.loadStore(ctx) },
		a.check,
		a.provisionClients,
		a.provisionFiles,
		func() error { return a.provisionRegion(ctx) },
		a.provisionRules,
		a.provisionHistory,
		func() error { return a.DecisionLog.provision(ctx) },
	} {
		if err := step(); err != nil {
			return caddyconf.AtSource(fmt.Errorf("rate_limit: %w", err), a.Source)
		}
	}
	a.compile()
	return a.run.OpenOnceStarted(ctx)
}

// compile hands on what was checked.
func (a *App) compile() {
	a.run.Tiers, a.run.Scores, a.run.Region = a.tierNames(), !a.Reputation.isOff(), a.Region.shared()
	a.run.Forged = reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Forged},
		Points:    a.Reputation.points(reputation.Forged),
		Ban:       a.Ban.rule(""),
	}
	if a.Pressure.isOn() {
		a.run.Crowded, a.run.Squeeze = a.Pressure.rule(), a.Pressure.squeeze().rule("")
	}
	if a.Session != nil {
		a.run.Session = a.Session.run
	}
	if a.APIKeys != nil {
		a.run.APIKeys = a.APIKeys.run
	}
	if a.DecisionLog != nil {
		a.run.DecisionLog = a.DecisionLog.run
	}
}

// Cleanup gives up the instance.
func (a *App) Cleanup() error {
	if a.run == nil {
		return nil
	}
	return a.run.Cleanup()
}

// provisionFiles decides where the database, the secret and the daily keys are kept.
func (a *App) provisionFiles() error {
	a.run.Settings = instance.Settings{
		Store:    a.run.Store.Identity(),
		Kind:     a.run.Store.CaddyModule().ID.Name(),
		Secret:   a.SecretFile,
		MaxKeys:  a.MaxKeys,
		Timeout:  time.Duration(a.StoreTimeout),
		Cleanup:  time.Duration(a.CleanupInterval),
		Degraded: a.DegradedLimit,
	}
	if _, ok := a.run.Store.(stores.Keyed); ok {
		return nil
	}
	if store, ok := a.run.Store.(stores.Network); ok {
		return a.provisionNetwork(store)
	}
	folder := filepath.Join(caddy.AppDataDir(), stores.DefaultFolder)
	if store, ok := a.run.Store.(stores.File); ok {
		a.run.Settings.Path, folder = store.Place(), store.Folder()
	}
	a.run.Settings.Secret = cmp.Or(a.SecretFile, filepath.Join(folder, "tally.key"))
	a.run.Settings.Epochs = filepath.Join(folder, "tally.epochs")
	if secret, err := filepath.Abs(a.run.Settings.Secret); err == nil && secret == a.run.Settings.Path {
		return fmt.Errorf("secret_file: is the database as well, got %q: name another file", a.SecretFile)
	}
	a.warnOfAccess("secret_file", a.run.Settings.Secret)
	a.warnOfAccess("the keys that names at rest are hashed under", a.run.Settings.Epochs)
	return nil
}

// provisionNetwork checks that there is what all machines must have that share a store.
func (a *App) provisionNetwork(store stores.Network) error {
	if a.SecretFile == "" {
		return fmt.Errorf("secret_file: is missing, and the machines that share the store %s must have the same: write secret_file <path>, and copy that file to all of them", a.run.Settings.Kind)
	}
	a.run.Settings.Address = store.Address()
	a.warnOfAccess("secret_file", a.run.Settings.Secret)
	return nil
}

// provisionHistory has the counts ready that the history is made of.
func (a *App) provisionHistory() (err error) {
	if !a.DisableHistory {
		a.run.Ledger, err = instance.OpenLedger(a.run.Settings)
	}
	return err
}

// loadStore loads the module that keeps the counts.
func (a *App) loadStore(ctx caddy.Context) error {
	if a.StoreRaw == nil {
		a.StoreRaw = json.RawMessage(`{"engine":"sqlite"}`)
	}
	module, err := ctx.LoadModule(a, "StoreRaw")
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	store, ok := module.(Store)
	if !ok {
		return fmt.Errorf("store: module %T is not a store", module)
	}
	a.run.Store = store
	return nil
}

// check returns an error about the first setting that is out of its range.
func (a *App) check() error {
	switch {
	case a.CleanupInterval != 0 && time.Duration(a.CleanupInterval) < time.Second:
		return fmt.Errorf("cleanup_interval: must be at least 1s, got %v", time.Duration(a.CleanupInterval))
	case a.MaxKeys != 0 && a.MaxKeys < 1000:
		return fmt.Errorf("max_keys: must be at least 1000, got %d", a.MaxKeys)
	case a.StoreTimeout != 0 && time.Duration(a.StoreTimeout) < time.Millisecond:
		return fmt.Errorf("store_timeout: must be at least 1ms, got %v", time.Duration(a.StoreTimeout))
	case a.DegradedLimit != 0 && (a.DegradedLimit < 1 || a.DegradedLimit > 100):
		return fmt.Errorf("degraded_limit: must be between 1%% and 100%%, got %d%%", a.DegradedLimit)
	}
	if err := checkPrefixes(a.IPv4Prefix, a.IPv6Prefix); err != nil {
		return err
	}
	if err := a.Pressure.check(); err != nil {
		return err
	}
	if err := a.Reputation.check(); err != nil {
		return err
	}
	if err := a.Page.provision(); err != nil {
		return err
	}
	return a.Ban.check()
}

// provisionClients checks how clients are told apart.
func (a *App) provisionClients() error {
	if err := a.provisionTiers(); err != nil {
		return err
	}
	if a.Session != nil {
		a.run.KnowsClients = true
		if err := a.Session.provision(); err != nil {
			return fmt.Errorf("session: %w", err)
		}
	}
	if a.APIKeys == nil {
		return nil
	}
	if err := a.provisionAPIKeys(); err != nil {
		return fmt.Errorf("api_keys: %w", err)
	}
	return nil
}

// Start implements caddy.App.
func (a *App) Start() error {
	if a.survey == nil && a.Source != "" {
		a.warn("no site has the directive rate_limit, so that nothing is limited", "rate_limit {, zone login {, limit 5/1m, } and } in a site, each on a line of its own")
	}
	if a.APIKeys != nil {
		a.countAPIKeys()
	} else {
		meter.SetAPIKeys(nil, nil)
	}
	if a.survey != nil {
		a.watchRules()
	}
	return nil
}

// Stop implements caddy.App.
func (a *App) Stop() error {
	if a.unwatchRules != nil {
		a.unwatchRules()
	}
	return nil
}
