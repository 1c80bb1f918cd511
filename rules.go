package tally

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/stores"
)

// This file has the operator's statements, bans and allowances: where their file is, and how
// its changes come into force.

// defaultRulesFile is the name of the file in stores.DefaultFolder of Caddy's data directory.
const defaultRulesFile = "rules"

// provisionRules reads the file, if there is one.
func (a *App) provisionRules() error {
	path, err := filepath.Abs(cmp.Or(a.RulesFile, filepath.Join(caddy.AppDataDir(), stores.DefaultFolder, defaultRulesFile)))
	if err != nil {
		return fmt.Errorf("rules_file: %w", err)
	}
	for _, other := range []string{a.run.Settings.Path, a.run.Settings.Secret} {
		if other, err := filepath.Abs(other); err == nil && other == path {
			return fmt.Errorf("rules_file: is the database or the secret as well, got %q: name another file", a.RulesFile)
		}
	}
	if a.run.Rules, err = rules.Open(path, a.rulesChanged); err != nil {
		return fmt.Errorf("rules_file: %w", err)
	}
	a.run.Stated.File = a.run.Rules
	a.warnOfAccess("rules_file", path)
	return nil
}

// rulesChanged reports that the file was read again.
func (a *App) rulesChanged(set *rules.Set, err error) {
	if err != nil {
		a.log.Error("the file of bans and allowances has changed and can't be used; what was in force is, until it is put right", zap.Error(err))
		return
	}
	a.run.Stated.Merge()
	a.log.Info("the file of bans and allowances was read again", a.rulesFields(set)...)
}

func (a *App) rulesFields(set *rules.Set) []zap.Field {
	now := time.Now()
	return []zap.Field{
		zap.Int("bans", set.InForce(rules.Ban, now)), zap.Int("allowances", set.InForce(rules.Allow, now)),
		zap.String("file", a.run.Rules.Path()),
	}
}

// rulesEvery is how often the file is looked at, so that a change is in force within a second.
const rulesEvery = time.Second / 2

// watchRules looks at the file until unwatchRules is called. No request does: it would wait
// for the disk, and for a large file to be read.
func (a *App) watchRules() {
	if set := a.run.Rules.Value(); !set.IsEmpty() {
		a.log.Info("the file of bans and allowances was read", a.rulesFields(set)...)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(rulesEvery)
		defer ticker.Stop()
		for {
			a.run.Rules.Look()
			countStatements(a.run.Stated.Now())
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
		}
	}()
	a.unwatchRules = func() {
		close(stop)
		select {
		case <-done:
		case <-time.After(instance.ReadyTimeout): // the disk hangs, and nothing ends that
		}
	}
}

// countStatements sets how many statements are in force.
func countStatements(set *rules.Set) {
	now := time.Now()
	for _, action := range rules.Actions {
		meter.SetRules(action.String(), set.InForce(action, now))
	}
}
