package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file chooses the place of operators' rules, and makes notes about it.

// errStoreAway is the error of a store that can't be used.
var errStoreAway = errors.New("the store can't be used at the moment")

// isOnlyInFile reports whether the store can't be used, and this machine's file has the rule.
func (cfg runningConfig) isOnlyInFile(inst *instance.Instance, action rules.Action, about rules.Target) bool {
	if !inst.Engine.Degraded() {
		return false
	}
	lines, err := cfg.inFile(action, about)
	return err == nil && len(lines) > 0
}

// ruleError returns the operator's error for a failed change of rules.
func (cfg runningConfig) ruleError(err error, added ...rules.Rule) error {
	if !cfg.SharesRules() {
		return err
	}
	switch {
	case errors.Is(err, storage.ErrNotesFull):
		return operator.Errorf(http.StatusConflict, "the store holds %d bans and allowances, which is as many as it may; those that were removed in the last week are among them; nothing was changed: "+
			"write long lists into the rules file of each machine, such as %s", storage.MaxNotes, cfg.Rules.Path())
	case errors.Is(err, storage.ErrUnknownOutcome), errors.Is(err, context.Canceled), errors.Is(err,
		context.DeadlineExceeded):
		return operator.Errorf(http.StatusServiceUnavailable,
			"%v: it isn't known whether that has changed anything; once more does no harm", err)
	}
	line := "allow <client> until <time>"
	if len(added) > 0 {
		line = added[0].String()
	}
	return operator.Errorf(http.StatusServiceUnavailable, "%v; nothing was changed: try again, or write a line into the rules file of each machine, which is read within a second: %s (here: %s)", err, line, cfg.Rules.Path())
}

// add writes audit entries about rules and then adds the rules, all or none. It returns their place,
// byStore or byRules, and notes for the operator. While the store can't be used, it adds them to this
// machine's rules file.
func (cfg runningConfig) add(ctx context.Context, inst *instance.Instance, who string, added ...rules.Rule) (in string,
	notes []string, err error) {
	if err := cfg.CheckRules(rules.NewSet(added)); err != nil {
		return "", nil, operator.Errorf(http.StatusConflict, "%v", err)
	}
	if _, err := cfg.listRules(); err != nil && !cfg.SharesRules() { // the audit has no rules that fail
		return "", nil, operator.Errorf(http.StatusConflict, "%v", instance.WithRemedy(err))
	}
	entries := make([]instance.AuditEntry, len(added))
	for i, rule := range added {
		t, err := operator.ParseTarget(rule.Target.In("").String())
		if err != nil {
			return "", nil, err
		}
		reason := rules.FormatFactor(rule.Percent) + operator.Command{Zone: rule.Target.Zone}.Where() +
			" " + rule.Reason
		entries[i] = instance.AuditEntry{By: who, Action: rule.Action.String(), Target: &t,
			Reason: strings.TrimSpace(reason)}
	}
	away := false
	for _, e := range entries {
		late, err := inst.Audit.WriteSoon(ctx, e)
		if err != nil {
			return "", nil, cfg.ruleError(err, added...)
		}
		away = away || late
	}
	if !away && cfg.SharesRules() {
		if err := inst.Shared.Put(ctx, added); err != nil {
			return "", nil, cfg.ruleError(err, added...)
		}
		cfg.logRules(who, "added", len(added))
		return byStore, nil, nil
	}
	if err := cfg.addRules(who, added...); err != nil {
		return "", nil, operator.Errorf(http.StatusConflict, "%v", err)
	}
	if away {
		notes = append(notes,
			"the store can't be used at the moment: the audit has it once the store is back, if Caddy runs until then")
	}
	if away && cfg.SharesRules() {
		if ban := added[0]; ban.Action == rules.Ban && len(inst.Shared.Find(rules.Allow, ban.Target)) > 0 {
			notes = append(notes, "it doesn't hold: the store has an allowance of it, which counts")
		}
		notes = append(notes, fmt.Sprintf("it is in the rules file of this machine only, and stays there when the store is back: on other machines write the same line into theirs: %s (here: %s)", added[0], cfg.Rules.Path()))
	}
	return byRules, notes, nil
}

// inFile returns the rules in the file with a target and an action. An action of 0 matches any.
func (cfg runningConfig) inFile(action rules.Action, about rules.Target) (found []rules.Rule, err error) {
	listed, err := cfg.listRules()
	for _, s := range listed {
		if s.Target == about && (action == 0 || s.Action == action) {
			found = append(found, s)
		}
	}
	return found, err
}

// besideInFile returns notes about the lines with a target in this machine's file, which apply in
// addition to the rules in the store.
func (cfg runningConfig) besideInFile(about rules.Target) (notes []string) {
	if !cfg.SharesRules() {
		return nil
	}
	lines, err := cfg.inFile(0, about)
	if err != nil {
		return []string{fmt.Sprintf("the rules file of this machine can't be used as it is: %v", err)}
	}
	for _, line := range lines {
		notes = append(notes, "the rules file of this machine has a line about it as well: "+line.String())
	}
	return notes
}

// otherFiles returns a note about the files of other machines, if they share the store.
func (cfg runningConfig) otherFiles() []string {
	if !cfg.SharesRules() {
		return nil
	}
	return []string{"if the rules file of another machine has a line about it, remove it there"}
}

// unlessElsewhere names other places of a rule that wasn't found, or returns "".
func (cfg runningConfig) unlessElsewhere() string {
	if !cfg.SharesRules() {
		return ""
	}
	return ", unless the rules file of another machine says so"
}
