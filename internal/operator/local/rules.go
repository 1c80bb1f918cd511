package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Bans implements operator.Service.
func (r running) Bans(ctx context.Context) ([]operator.Rule, error) {
	app, inst, err := r.instanceInUse()
	if err != nil {
		return nil, err
	}
	listed, err := app.listRules()
	if err != nil {
		return nil, operator.Errorf(http.StatusConflict, "%v", err)
	}
	bans, now := []operator.Rule{}, time.Now()
	for _, s := range inst.Shared.List() {
		if len(bans) < operator.MaxItems {
			bans = append(bans, *ruleOf(&s, byStore))
		}
	}
	for i := range listed {
		s := &listed[i]
		if ended := !s.Until.IsZero() && !now.Before(s.Until); !ended && len(bans) < operator.MaxItems {
			bans = append(bans, *ruleOf(s, byRules))
		}
	}
	earned, _ := app.conductBans(ctx, inst)
	bans = append(bans, earned[:min(len(earned), operator.MaxItems-len(bans))]...)
	for i := range bans {
		if bans[i].Tag == "" {
			bans[i].Tag = app.tagOf(inst, bans[i].Client)
		}
	}
	return bans, nil
}

// Do implements operator.Service.
func (r running) Do(ctx context.Context, action operator.Action, o operator.Command) (operator.Done, error) {
	switch action {
	case operator.Reset:
		return r.reset(ctx, o)
	case operator.Ban:
		return r.state(ctx, rules.Ban, o)
	case operator.Unban:
		return r.unban(ctx, o)
	case operator.Allow:
		if o.For <= 0 {
			return operator.Done{}, operator.Errorf(http.StatusBadRequest,
				"for: an allowance needs an end: expected for how long, such as 2h")
		}
		return r.state(ctx, rules.Allow, o)
	case operator.Disallow:
		o.Zone = ""
		return r.end(ctx, rules.Allow, action, "allowed it", o)
	case operator.Raise:
		return r.state(ctx, rules.Raise, o)
	case operator.Unraise:
		return r.end(ctx, rules.Raise, action, "raised its limits"+cmp.Or(o.Where(), " in all zones"), o)
	}
	return operator.Done{}, operator.Errorf(http.StatusNotFound, "there is no action %q", action)
}

// state adds a rule about a target.
func (r running) state(ctx context.Context, action rules.Action, o operator.Command) (operator.Done, error) {
	t, about, err := r.stated(ctx, o.Client)
	if err != nil {
		return operator.Done{}, err
	}
	added := rules.Rule{Action: action, Target: about, Reason: operator.OneLine(o.Reason)}
	if action == rules.Raise {
		if _, err = t.Config.zonesNamed(o.Zone); err != nil && !t.Config.HasLimit(o.Zone) {
			zone, _, _ := strings.Cut(o.Zone, "/")
			isOther := func(limit string) bool { return !strings.HasPrefix(limit, zone+"/") }
			if limits := slices.DeleteFunc(t.Config.LimitNames(), isOther); len(limits) > 0 {
				err = operator.Errorf(http.StatusNotFound, "zone: there is no limit %q: expected %s", o.Zone, caddyconf.OrList(limits))
			}
			return operator.Done{}, err
		}
		if added.Percent, err = rules.ParseFactor(o.Factor); err != nil {
			return operator.Done{}, operator.Errorf(http.StatusBadRequest, "factor: %v", err)
		}
		added.Target = about.In(o.Zone)
	}
	if err := (rules.Trust{Allow: true, Wide: o.Force}).Check(added); err != nil {
		return operator.Done{}, operator.Errorf(http.StatusBadRequest, "client: %v", err)
	}
	if action == rules.Ban && !o.Force && t.Config.isFrom(about, o.From) {
		return operator.Done{}, operator.Errorf(http.StatusConflict,
			"client: %v has your own address, %v: if that is meant, name it on the page Bans, and tick the box",
			about, o.From)
	}
	if err := t.Config.checkProxies(added, o.Force); err != nil {
		return operator.Done{}, err
	}
	done := operator.Done{Client: about.String(), Changed: 1}
	if o.For != 0 {
		if !(o.For >= 1 && o.For <= operator.MaxRule) {
			return operator.Done{}, operator.Errorf(http.StatusBadRequest,
				"for: expected 1 second to 100 years (%.0f seconds), got %.0f", operator.MaxRule, o.For)
		}
		added.Until = time.Now().Add(o.For.Duration()).UTC().Truncate(time.Second)
		done.Until = &added.Until
	}
	earlier := t.replacedBy(added)
	if done.In, done.Notes, err = t.Config.add(ctx, t.Instance, o.By, added); err != nil {
		return operator.Done{}, err
	}
	if done.In == byStore {
		done.Notes = append(done.Notes, t.Config.besideInFile(added.Target)...)
	}
	if t.Kind == operator.APIKey && t.keyTier() == "" {
		done.Notes = append(done.Notes, "No API key of that name is in force.")
	}
	done.Notes = slices.Concat(done.Notes, earlier, t.Config.exceptionsTo(added))
	return done, nil
}

// isFrom reports whether a target has an address.
func (cfg runningConfig) isFrom(about rules.Target, addr netip.Addr) bool {
	switch addr = addr.Unmap(); about.Kind {
	case rules.Address:
		return about.Network.Contains(addr)
	case rules.Country:
		return cfg.Networks.Country(addr) == about.Text
	case rules.ASN:
		return cfg.Networks.ASN(addr) == about.Text
	}
	return false
}

// checkProxies returns an error if a rule bans proxies that a server trusts, unless that is forced: before TLS it would
// close the connections of all their visitors.
func (cfg runningConfig) checkProxies(rule rules.Rule, force bool) error {
	if rule.Action != rules.Ban || force {
		return nil
	}
	servers, _ := serversOn("") // without sites there are no proxies
	for _, server := range servers {
		for _, text := range routing.TrustedRanges(server) {
			network, err := caddyhttp.CIDRExpressionToPrefix(text)
			if about := rule.Target; err == nil && (cfg.isFrom(about, network.Addr()) ||
				about.Kind == rules.Address && about.Network.Overlaps(network)) {
				return operator.Errorf(http.StatusConflict, "client: %v is among the proxies that trusted_proxies names, as %v, and brings other visitors: if that is meant, ban it with --force, or tick the box on the page Bans", about, network)
			}
		}
	}
	return nil
}

// entry returns the audit entry for a command about the target.
func (sub *subject) entry(action operator.Action, o operator.Command) instance.AuditEntry {
	about := sub.Target
	return instance.AuditEntry{By: o.By, Action: string(action), Target: &about, Reason: o.Reason}
}

// replacedBy returns a note about the earlier rule that a new one replaces, if there is one:
// undoing the new rule doesn't restore it.
func (sub *subject) replacedBy(added rules.Rule) (notes []string) {
	var earlier []rules.Rule
	for _, s := range sub.Instance.Shared.Find(added.Action, added.Target) {
		earlier = append(earlier, s.Rule)
	}
	if !sub.Config.SharesRules() {
		earlier, _ = sub.Config.inFile(added.Action, added.Target) // adding to the file reports any error
	}
	for _, s := range earlier {
		left := "no end"
		if !s.Until.IsZero() {
			left = wording.Wait(time.Until(s.Until)) + " left"
		}
		if left != " left" { // otherwise it has ended
			notes = append(notes, "it is in the place of an earlier one that had "+left+
				", which undoing it doesn't bring back")
		}
	}
	return notes
}

// exceptionsTo returns a note about narrower networks with rules of their own, if there are any.
func (cfg runningConfig) exceptionsTo(s rules.Rule) (notes []string) {
	if s.Target.Kind != rules.Address {
		return nil
	}
	if n := cfg.Stated.Now().Exceptions(s, time.Now()); n > 0 {
		notes = append(notes, "it doesn't hold where narrower rules do: "+wording.Counted(n, "rule"))
	}
	return notes
}

// stated returns an operator's target, and its form in the file.
func (r running) stated(ctx context.Context, client string) (t *subject, about rules.Target, err error) {
	if t, err = r.target(ctx, client); err == nil {
		about, err = t.ruleTarget()
	}
	return t, about, err
}

// ruleTarget returns the form of the target in the file. For a reference it returns the
// client, if memory still knows it.
func (sub *subject) ruleTarget() (rules.Target, error) {
	if sub.Referred != nil {
		x := explainer{subject: sub, Now: time.Now()}
		x.explainReference()
		if sub.Referred != nil && sub.Referred.Key != "" {
			return rules.Target{}, operator.Errorf(http.StatusNotFound, "client: the limit that refused counts clients together, so the reference names none of them: ask for the address, and name the client by it")
		}
		if sub.Referred != nil {
			return rules.Target{}, operator.Errorf(http.StatusNotFound, "client: the reference is of a client that memory doesn't hold any more: name it by its address, api-key:NAME or key:TEXT")
		}
	}
	if sub.nameless != "" {
		return rules.Target{}, operator.Errorf(http.StatusBadRequest, "client: its key is too long for memory, which has only a hash: write key:TEXT with all of it, or ban its address")
	}
	about, err := rules.ParseTarget(sub.String())
	if err != nil {
		return rules.Target{}, operator.Errorf(http.StatusBadRequest, "client: %v", err)
	}
	return about, nil
}

// unbanAll ends the bans of all clients, as far as [running.Bans] lists them.
func (r running) unbanAll(ctx context.Context, o operator.Command) (done operator.Done, err error) {
	all, err := r.Bans(ctx)
	if err != nil {
		return done, err
	}
	clients := make(map[string]bool)
	for _, b := range all {
		if b.Action == operator.Ban && cmp.Or(b.Client, b.Tag) != "" {
			clients[cmp.Or(b.Client, string(operator.Tag)+":"+b.Tag)] = true
		}
	}
	switch {
	case o.Client != "":
		return done, operator.Errorf(http.StatusBadRequest, "client: got %q and all: expected one of them", o.Client)
	case len(clients) == 0:
		return done, operator.Errorf(http.StatusNotFound, "nobody is banned%s",
			runningConfig{r.config()}.unlessElsewhere())
	case !o.Force:
		return done, operator.Errorf(http.StatusConflict, "this ends the bans of %s, which nothing brings back: if that is meant, add --force (in JSON: \"force\": true)", wording.Counted(len(clients), "client"))
	}
	o.All = false
	for o.Client = range clients {
		one, err := r.unban(ctx, o)
		if failed, ok := errors.AsType[*operator.Error](err); ok && failed.Status == http.StatusNotFound {
			continue // it has ended, or another one's end has ended it
		} else if err != nil {
			return done, fmt.Errorf("after %s: %w", wording.Counted(done.Changed, "client"), err)
		}
		done.Changed++
		done.Bans += one.Bans
	}
	if len(all) >= operator.MaxItems {
		done.Notes = append(done.Notes, "there may be more: do it again")
	}
	return done, nil
}

// unban ends the bans of a client, and forgets its violations.
func (r running) unban(ctx context.Context, o operator.Command) (operator.Done, error) {
	if o.All {
		return r.unbanAll(ctx, o)
	}
	t, err := r.target(ctx, o.Client)
	if err != nil {
		return operator.Done{}, err
	}
	done := operator.Done{Client: t.String()}
	about, unstatable := t.ruleTarget()
	switch {
	case o.KeepViolations:
	case unstatable == nil && t.Config.isOnlyInFile(t.Instance, rules.Ban, about):
		done.Notes = append(done.Notes, "the store can't be used at the moment: what the client did isn't forgotten")
	default:
		if done.Changed, done.Bans, err = t.forgive(ctx, o); err != nil {
			return operator.Done{}, err
		}
	}
	if unstatable == nil {
		removed, err := t.unstate(ctx, rules.Ban, about, operator.Unban, o)
		if err != nil {
			return operator.Done{}, err
		}
		done.Client = about.String()
		done.Changed += removed
		done.Bans += removed
		done.Notes = append(done.Notes, t.Config.otherFiles()...)
		if wider := t.stillBanned(); wider != "" {
			done.Notes = append(done.Notes, "it is still banned by the rule about "+wider)
		}
	}
	if done.Changed == 0 && o.KeepViolations {
		return operator.Done{}, operator.Errorf(http.StatusNotFound, "%s: it isn't banned by an operator%s", t,
			t.Config.unlessElsewhere())
	}
	if done.Changed == 0 {
		if wider := t.stillBanned(); wider != "" {
			return operator.Done{}, operator.Errorf(http.StatusNotFound, // without its address, which pages mask
				"client: it is banned as a part of %s, not alone: unban %[1]s, or allow the client", wider)
		}
		return operator.Done{}, operator.Errorf(http.StatusNotFound,
			"%s: it isn't banned%s; if a limit refuses it, reset it%s", t, t.Config.unlessElsewhere(), t.unknownHint())
	}
	return done, nil
}

// stillBanned returns the target of a rule that still bans this target, or "".
func (sub *subject) stillBanned() string {
	x := explainer{subject: sub, Now: time.Now()}
	x.explainRule()
	if x.Answer.Rule == nil || x.Answer.Rule.Action != operator.Ban {
		return ""
	}
	return x.Answer.Rule.Client
}

// unstate removes the rules with a target and an action, and returns their number. If there were
// any, it writes an audit entry.
func (sub *subject) unstate(ctx context.Context, action rules.Action, about rules.Target, act operator.Action,
	o operator.Command) (int, error) {
	inFile, err := sub.Config.inFile(action, about)
	if err != nil {
		return 0, operator.Errorf(http.StatusConflict, "%v", err)
	}
	inStore := len(sub.Instance.Shared.Find(action, about))
	if len(inFile) == 0 && inStore == 0 {
		return 0, nil
	}
	switch entry := sub.entry(act, o); {
	case inStore == 0:
		_, err = sub.Instance.Audit.WriteSoon(ctx, entry)
	case sub.Instance.Engine.Degraded():
		err = errStoreAway
	default: // an entry that came later would tell of an act that failed
		err = sub.Instance.Audit.Write(ctx, entry)
	}
	if err != nil {
		return 0, sub.Config.ruleError(err)
	}
	shared, err := sub.Instance.Shared.Drop(ctx, action, about)
	if err != nil {
		return 0, sub.Config.ruleError(err)
	}
	sub.Config.logRules(o.By, "removed", shared)
	removed, err := sub.Config.removeRules(o.By, action, about)
	switch {
	case err != nil && shared > 0:
		return 0, operator.Errorf(http.StatusConflict,
			"it was removed from the store, but not from the file of this machine: %v", err)
	case err != nil:
		return 0, operator.Errorf(http.StatusConflict, "%v", err)
	}
	return shared + len(removed), nil
}

// end removes the rule about a target. did says what its operator did.
func (r running) end(ctx context.Context, action rules.Action, act operator.Action, did string,
	o operator.Command) (operator.Done, error) {
	t, about, err := r.stated(ctx, o.Client)
	if err != nil {
		return operator.Done{}, err
	}
	removed, err := t.unstate(ctx, action, about.In(o.Zone), act, o)
	if err != nil {
		return operator.Done{}, err
	}
	if removed == 0 {
		return operator.Done{}, operator.Errorf(http.StatusNotFound, "%s: no operator has %s%s", about, did,
			t.Config.unlessElsewhere())
	}
	return operator.Done{Client: about.String(), Changed: removed, Notes: t.Config.otherFiles()}, nil
}

// Import implements operator.Service.
func (r running) Import(ctx context.Context, i operator.Import) (operator.Done, error) {
	app, inst, err := r.instanceInUse()
	if err != nil {
		return operator.Done{}, err
	}
	if n := len(i.Rules); n == 0 || n > operator.MaxItems {
		return operator.Done{}, operator.Errorf(http.StatusBadRequest, "statements: expected 1 to %d, got %d",
			operator.MaxItems, n)
	}
	var added []rules.Rule
	trust := rules.Trust{Allow: i.Allow, Wide: i.Force}
	for n, line := range i.Rules {
		rule, err := rules.ParseRule(line)
		if err == nil {
			err = cmp.Or(trust.Check(rule), app.checkProxies(rule, i.Force))
		}
		if err != nil {
			return operator.Done{}, operator.Errorf(http.StatusBadRequest, "rule %d: %v", n+1, err)
		}
		added = append(added, rule)
	}
	done := operator.Done{Changed: len(added)}
	if done.In, done.Notes, err = app.add(ctx, inst, i.By, added...); err != nil {
		return operator.Done{}, err
	}
	return done, nil
}
