package tally

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Bounds of how long an operator's statement holds.
const (
	minStatement = time.Second
	maxStatement = 100 * 365 * 24 * time.Hour
)

// Ban implements operator.Service.
func (s running) Ban(ctx context.Context, o operator.Order) (operator.Done, error) {
	return s.state(ctx, rules.Ban, o)
}

// Allow implements operator.Service.
func (s running) Allow(ctx context.Context, o operator.Order) (operator.Done, error) {
	if o.For <= 0 {
		return operator.Done{}, operator.Errorf(http.StatusBadRequest, "for: an allowance needs an end: expected for how long, such as 2h")
	}
	return s.state(ctx, rules.Allow, o)
}

// state makes a statement about a target.
func (s running) state(ctx context.Context, action rules.Action, o operator.Order) (operator.Done, error) {
	t, about, err := s.stated(o.Client)
	if err != nil {
		return operator.Done{}, err
	}
	added := rules.Statement{Action: action, Target: about, Reason: operator.OneLine(o.Reason)}
	if err := (rules.Trust{Allow: true, Wide: o.Force}).Check(added); err != nil {
		return operator.Done{}, operator.Errorf(http.StatusBadRequest, "client: %v", err)
	}
	done := operator.Done{Client: about.String(), Changed: 1}
	if o.For != 0 {
		length := o.For.Duration()
		if length < minStatement || length > maxStatement {
			return operator.Done{}, operator.Errorf(http.StatusBadRequest, "for: expected between 1s and 100 years, got %v", length)
		}
		added.Until = time.Now().Add(length).UTC().Truncate(time.Second)
		done.Until = &added.Until
	}
	earlier := t.replacedBy(added)
	if done.In, done.Notes, err = t.app.state(ctx, t.instance, []instance.AuditEntry{t.entry(action.String(), o)}, added); err != nil {
		return operator.Done{}, err
	}
	if done.In == byStore {
		done.Notes = append(done.Notes, t.app.besideInFile(about)...)
	}
	done.Notes = slices.Concat(done.Notes, earlier, t.app.exceptionsTo(added))
	return done, nil
}

// entry returns the audit entry of an order about the target.
func (t *target) entry(action string, o operator.Order) instance.AuditEntry {
	about := t.Target
	return instance.AuditEntry{By: o.By, Action: action, Target: &about, Reason: o.Reason}
}

// replacedBy returns a note about the earlier statement whose place another takes, if there is one:
// undoing the other doesn't bring it back.
func (t *target) replacedBy(added rules.Statement) (notes []string) {
	var earlier []rules.Statement
	for _, s := range t.instance.Shared.Find(added.Action, added.Target) {
		earlier = append(earlier, s.Statement)
	}
	if !t.app.SharesStatements() {
		earlier, _ = t.app.inFile(added.Action, added.Target) // an error: adding to the file says it
	}
	for _, s := range earlier {
		left := "no end"
		if !s.Until.IsZero() {
			left = wording.Wait(time.Until(s.Until)) + " left"
		}
		if left != " left" { // it has ended
			notes = append(notes, "it is in the place of an earlier one that had "+left+", which undoing it doesn't bring back")
		}
	}
	return notes
}

// exceptionsTo returns a note about the narrower networks that a statement doesn't hold for, if
// there are any.
func (a config) exceptionsTo(s rules.Statement) (notes []string) {
	if s.Target.Kind != rules.Address {
		return nil
	}
	if n := a.Stated.Now().Exceptions(s.Action, s.Target.Network, time.Now()); n > 0 {
		notes = append(notes, fmt.Sprintf("it doesn't hold where narrower statements do: there are %d", n))
	}
	return notes
}

// stated returns whom an operator names, and how the file names them.
func (s running) stated(client string) (t *target, about rules.Target, err error) {
	if t, err = s.target(client); err == nil {
		about, err = t.statementTarget()
	}
	return t, about, err
}

// statementTarget returns the target as the file has it. Of a reference it is the client that
// memory still knows.
func (t *target) statementTarget() (rules.Target, error) {
	if t.referred != nil {
		x := explainer{target: t, now: time.Now()}
		x.explainReference()
		if t.referred != nil {
			return rules.Target{}, operator.Errorf(http.StatusNotFound, "client: the reference is of a client that memory doesn't hold any more: name it by its address, api-key:NAME or key:TEXT")
		}
	}
	about, err := rules.ParseTarget(t.String())
	if err != nil {
		return rules.Target{}, operator.Errorf(http.StatusBadRequest, "client: %v", err)
	}
	return about, nil
}

// Unban implements operator.Service.
func (s running) Unban(ctx context.Context, o operator.Order) (operator.Done, error) {
	t, err := s.target(o.Client)
	if err != nil {
		return operator.Done{}, err
	}
	done := operator.Done{Client: t.String()}
	about, unstatable := t.statementTarget()
	switch {
	case o.KeepViolations:
	case unstatable == nil && t.app.isOnlyInFile(t.instance, rules.Ban, about):
		done.Notes = append(done.Notes, "the store can't be used at the moment: what the client did isn't forgotten")
	default:
		if done.Changed, done.Bans, err = t.forgive(ctx, o); err != nil {
			return operator.Done{}, err
		}
	}
	if unstatable == nil {
		removed, err := t.unstate(ctx, rules.Ban, about, "unban", o)
		if err != nil {
			return operator.Done{}, err
		}
		done.Client = about.String()
		done.Changed += removed
		done.Bans += removed
		done.Notes = append(done.Notes, t.app.otherFiles()...)
		if wider := t.stillBanned(); wider != "" {
			done.Notes = append(done.Notes, "it is still banned by the statement about "+wider)
		}
	}
	if done.Changed == 0 && o.KeepViolations {
		return operator.Done{}, operator.Errorf(http.StatusNotFound, "%s: it isn't banned by an operator%s", t, t.app.unlessElsewhere())
	}
	if done.Changed == 0 {
		if wider := t.stillBanned(); wider != "" {
			return operator.Done{}, operator.Errorf(http.StatusNotFound, "%s: it is banned by the statement about %s: unban that, or allow %s", t, wider, t)
		}
		return operator.Done{}, operator.Errorf(http.StatusNotFound, "%s: it isn't banned%s; if a limit refuses it, reset it%s", t, t.app.unlessElsewhere(), t.unknownHint())
	}
	return done, nil
}

// stillBanned returns whom the statement is about that still bans the target, or "".
func (t *target) stillBanned() string {
	x := explainer{target: t, now: time.Now()}
	x.explainStatement()
	if x.told.Rule == nil || x.told.Rule.Action != rules.Ban.String() {
		return ""
	}
	return x.told.Rule.Client
}

// unstate removes the statements with an action about a target, and returns how many there
// were. The audit has it if there were any.
func (t *target) unstate(ctx context.Context, action rules.Action, about rules.Target, act string, o operator.Order) (int, error) {
	inFile, err := t.app.inFile(action, about)
	if err != nil {
		return 0, operator.Errorf(http.StatusConflict, "%v", err)
	}
	inStore := len(t.instance.Shared.Find(action, about))
	if len(inFile) == 0 && inStore == 0 {
		return 0, nil
	}
	late, err := t.instance.AuditSoon(ctx, t.entry(act, o))
	if err != nil || inStore > 0 && late {
		return 0, t.app.unstated(cmp.Or(err, errStoreAway))
	}
	shared, err := t.app.unstateShared(ctx, t.instance, o.By, action, about)
	if err != nil {
		return 0, err
	}
	removed, err := t.app.removeStatements(o.By, action, about)
	switch {
	case err != nil && shared > 0:
		return 0, operator.Errorf(http.StatusConflict, "it was removed from the store, but not from the file of this machine: %v", err)
	case err != nil:
		return 0, operator.Errorf(http.StatusConflict, "%v", err)
	}
	return shared + len(removed), nil
}

// Disallow implements operator.Service.
func (s running) Disallow(ctx context.Context, o operator.Order) (operator.Done, error) {
	t, about, err := s.stated(o.Client)
	if err != nil {
		return operator.Done{}, err
	}
	removed, err := t.unstate(ctx, rules.Allow, about, "disallow", o)
	if err != nil {
		return operator.Done{}, err
	}
	if removed == 0 {
		return operator.Done{}, operator.Errorf(http.StatusNotFound, "%s: no operator has allowed it%s", about, t.app.unlessElsewhere())
	}
	return operator.Done{Client: about.String(), Changed: removed, Notes: t.app.otherFiles()}, nil
}

// Import implements operator.Service.
func (s running) Import(ctx context.Context, i operator.Import) (operator.Done, error) {
	app, h, err := s.instanceInUse()
	if err != nil {
		return operator.Done{}, err
	}
	if n := len(i.Statements); n == 0 || n > operator.MaxItems {
		return operator.Done{}, operator.Errorf(http.StatusBadRequest, "statements: expected 1 to %d, got %d", operator.MaxItems, n)
	}
	var added []rules.Statement
	trust := rules.Trust{Allow: i.Allow, Wide: i.Force}
	for n, line := range i.Statements {
		statement, err := rules.ParseStatement(line)
		if err == nil {
			err = trust.Check(statement)
		}
		if err != nil {
			return operator.Done{}, operator.Errorf(http.StatusBadRequest, "statement %d: %v", n+1, err)
		}
		added = append(added, statement)
	}
	entries := make([]instance.AuditEntry, len(added))
	for n, statement := range added {
		t, err := operator.ParseTarget(statement.Target.String())
		if err != nil {
			return operator.Done{}, err
		}
		entries[n] = instance.AuditEntry{By: i.By, Action: statement.Action.String(), Target: &t, Reason: statement.Reason}
	}
	in, notes, err := app.state(ctx, h, entries, added...)
	if err != nil {
		return operator.Done{}, err
	}
	return operator.Done{Changed: len(added), In: in, Notes: notes}, nil
}
