package local

import (
	"errors"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/blocklist"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/rules"
)

// This file changes operators' rules while Caddy runs: in the store if several machines share it,
// or else in the rules file. A change takes effect in this process at once, and in other processes
// that use the store or the file within a second.

// listRules returns the rules in the file, in its order, including those that have ended.
func (cfg runningConfig) listRules() ([]rules.Rule, error) {
	listed, err := rules.List(cfg.Rules.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return listed, err
}

// addRules adds rules to the file. They replace rules with the same action and target. who is
// the acting person or program.
func (cfg runningConfig) addRules(who string, added ...rules.Rule) error {
	if err := rules.Add(cfg.Rules.Path(), time.Now(), added...); err != nil {
		return instance.WithRemedy(err)
	}
	cfg.Rules.Reload()
	cfg.logRules(who, "added", len(added))
	return nil
}

// removeRules removes the rules with a target and an action from the file, and returns them.
func (cfg runningConfig) removeRules(who string, action rules.Action, target rules.Target) ([]rules.Rule, error) {
	removed, err := rules.Remove(cfg.Rules.Path(), action, target)
	if err != nil {
		return nil, instance.WithRemedy(err)
	}
	cfg.Rules.Reload()
	cfg.logRules(who, "removed", len(removed))
	return removed, nil
}

// logRules logs the author of a change of rules. The log doesn't contain their targets.
func (cfg runningConfig) logRules(who, how string, n int) {
	if n > 0 {
		cfg.Log.Info("bans or allowances were "+how, zap.Int("statements", n), zap.String("by", who))
	}
}

// describeRules describes the rules file.
func (cfg runningConfig) describeRules() operator.RulesFile {
	path, now := cfg.Rules.Path(), time.Now()
	count := func(set *rules.Set) operator.RuleCounts {
		return operator.RuleCounts{Bans: set.InForce(rules.Ban, now), Allowances: set.InForce(rules.Allow, now),
			Raises: set.InForce(rules.Raise, now)}
	}
	file := operator.RulesFile{Path: path, RuleCounts: count(cfg.Rules.Value()),
		Trouble: instance.TroubleOf(path, cfg.Rules.Trouble())}
	if inst := cfg.Instance.Load(); inst != nil && cfg.SharesRules() && inst.Shared.Keys.Load() != nil { // it was read
		file.Store = new(count(inst.Shared.Set.Load()))
	}
	for _, list := range cfg.BlockLists {
		file.Lists = append(file.Lists, describeList(list.State()))
	}
	return file
}

func describeList(s blocklist.State) operator.BlockList {
	list := operator.BlockList{Name: s.Name, Bans: s.Bans}
	if !s.Read.IsZero() {
		list.Read = new(s.Read.UTC().Truncate(time.Second))
	}
	if s.Err != nil {
		list.Reason = s.Err.Error()
	}
	return list
}
