package tally

import (
	"errors"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/rules"
)

// This file changes operators' statements while Caddy runs: in the store if several machines share
// it, or else in the file of bans and allowances. What is changed here is in force in this process
// at once, and in others that use the store or the file within a second.

// listStatements returns the statements in the file, in its order, those that have ended among
// them.
func (a config) listStatements() ([]rules.Statement, error) {
	statements, err := rules.List(a.Rules.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return statements, err
}

// addStatements adds statements to the file, in the place of those with the same action about
// the same targets. who is the person or program that makes them.
func (a config) addStatements(who string, added ...rules.Statement) error {
	if err := rules.Add(a.Rules.Path(), time.Now(), added...); err != nil {
		return instance.WithRemedy(err)
	}
	a.statementsChanged(who, "added", added)
	return nil
}

// removeStatements removes the statements about a target with an action, or with any if action
// is 0, and returns them: none if there were none. who is the person or program that removes
// them.
func (a config) removeStatements(who string, action rules.Action, target rules.Target) ([]rules.Statement, error) {
	removed, err := rules.Remove(a.Rules.Path(), action, target)
	if err != nil {
		return nil, instance.WithRemedy(err)
	}
	if len(removed) > 0 {
		a.statementsChanged(who, "removed", removed)
	}
	return removed, nil
}

// statementsChanged brings a change of the file into force, and tells who has made it. The log
// doesn't say whom it is about.
func (a config) statementsChanged(who, how string, statements []rules.Statement) {
	a.Rules.Reload()
	a.logStatements(who, how, len(statements))
}

func (a config) logStatements(who, how string, n int) {
	a.Log.Info("bans or allowances were "+how, zap.Int("statements", n), zap.String("by", who))
}

// describeRules describes the file of bans and allowances.
func (a config) describeRules() operator.RulesFile {
	set, now := a.Rules.Value(), time.Now()
	told := operator.RulesFile{
		Path:       a.Rules.Path(),
		Bans:       set.InForce(rules.Ban, now),
		Allowances: set.InForce(rules.Allow, now),
		Trouble:    instance.TroubleOf(a.Rules.Path(), a.Rules.Trouble()),
	}
	if h := a.Instance.Load(); h != nil && a.SharesStatements() {
		shared := h.Shared.Set.Load()
		told.Store = &operator.StoredRules{Bans: shared.InForce(rules.Ban, now), Allowances: shared.InForce(rules.Allow, now)}
	}
	return told
}
