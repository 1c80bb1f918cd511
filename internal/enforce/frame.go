package enforce

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// This file is the frame of a request: begin, collect, decide, verdict. The site, explain and the replay
// go through it alike, so they can't differ. What decides is its argument.

// Decider decides about what requests ask for: the engine, which a [Config] has, about those of its site;
// its [Forecast] about those that operators ask about; the engine of a replay about those of a log.
type Decider interface {
	// Decide charges debits, or refuses. The result is false if there are no counts to decide by.
	Decide(ctx context.Context, client *engine.Client, debits []engine.Debit) (d engine.Decision, ok bool)
	// Clock returns the time, and the latest time at which the request may have come.
	Clock() (came, now time.Time)
	// Sleep waits until the units of a delayed request are free, and reports whether the request still
	// waits then.
	Sleep(ctx context.Context, d time.Duration) bool
}

// Begin returns the evaluation of a request by the engine, which must be released. It removes the header
// fields that later handlers must not see, whatever becomes of the request.
func (h *Handler) Begin(r *http.Request) *Evaluation {
	httpfield.KeepConnectionOptions(r.Header)
	h.Config.applyServiceHeader(r)
	for _, field := range h.PassFields {
		httpfield.DeleteTwins(r.Header, field)
	}
	e := newEvaluation(r)
	e.Handler, e.decider = h, h.Config
	if h.AddressedBy != nil {
		e.fixClientIP(h.AddressedBy)
	}
	if h.UsesDomain {
		mapDomain(e.Repl, r)
	}
	if h.Config.Networks != nil {
		h.Config.mapNetworks(e.Repl, r)
	}
	if h.Config.KnowsClients {
		e.attachClient(h.Config, h.UsesClientPlaceholders)
	}
	return e
}

// By makes another decider than the engine decide.
func (e *Evaluation) By(by Decider) *Evaluation {
	e.decider = by
	_, e.forecasts = by.(Forecast)
	return e
}

// Decide returns the verdict about the request, which is valid until Release. If the request may pass,
// shadow limits decide about it too. The error says why no decision was possible.
func (e *Evaluation) Decide() (*Verdict, error) {
	v := &e.Verdict
	err := e.decide()
	if err == nil && v.Outcome == Refused && e.offersChallenge(v.Refusal) {
		v.Outcome = Challenged
	}
	if len(v.Shadows.Debits) > 0 || len(v.tried) > 0 {
		e.decideShadows(err == nil && v.Passes())
	}
	if err == nil {
		e.publish()
	}
	return v, err
}

// publish makes the verdict known to later handlers: by placeholders, and by the fields of exceeded limits.
func (e *Evaluation) publish() {
	if e.Response != nil {
		e.Response = e.Response.Join(e.Vars, e.Repl, &e.texts)
	}
	if e.Outcome == Passed {
		e.Client.mapPlaceholders(e)
	}
	if e.Passes() {
		e.nameExceeded()
	}
}

// decide goes through the steps until one settles the outcome.
func (e *Evaluation) decide() error {
	v := &e.Verdict
	if e.Handler.Config.Session.serves(e.Http.URL.Path) {
		v.Outcome = AtSessions
		return nil
	}
	err := e.collect()
	e.body.unpeek(&e.Verdict) // it may wait now
	switch {
	case err != nil || v.Outcome != undecided:
		return err
	case v.Allowed:
		e.passAllowed()
		return nil
	case e.TrapBan > 0:
		e.refuseTrapped()
		return nil
	case v.RefusedBy != nil:
		e.refuse(Refusal{Policy: v.RefusedBy, Retry: limiter.Never, Reason: engine.TooCostly})
		return nil
	case len(v.Debits) == 0 && len(v.places) == 0:
		v.Unzoned = v.Denial == nil && len(v.Shadows.Debits) == 0 && len(v.tried) == 0
		if v.Subject == nil {
			e.passUnlessDenied()
			return nil
		}
	}
	if err := e.readBody(); err != nil {
		return err
	}
	if err := e.enter(); err != nil || v.Outcome != undecided {
		return err
	}
	v.Decision, v.Decided = engine.Decision{Allowed: true}, true
	if len(v.Debits) > 0 || v.Subject != nil {
		v.Decision, v.Decided = e.decideInTurn()
	}
	if v.Decided {
		e.notePressure()
	}
	switch d := &v.Decision; {
	case !v.Decided: // its configuration never ran; the next one limits the client
		e.passUnlessDenied()
	case d.Reason == engine.Abandoned:
		return e.breakOff()
	case !d.Allowed:
		e.refuseByDecision()
	case v.Denial != nil || len(v.Debits) == 0 && len(v.places) == 0:
		e.passUnlessDenied()
	default:
		e.passCounted()
	}
	return nil
}

// collect collects the debits of all zones that the request belongs to. If one zone denies it for its API
// key, the others still count it, so that they can limit floods of bad keys.
func (e *Evaluation) collect() error {
	h, v := e.Handler, &e.Verdict
	e.noteNeighbor()
	if err := e.body.peek(&e.Verdict, h.MatchesBody); err != nil {
		return err
	}
	if exempt, err := e.isExempt(); err != nil {
		return err
	} else if exempt {
		v.Outcome, v.Exempt, v.Unzoned = Passed, true, true
		return nil
	}
	early := matcher.IsEarly(e.Http) // the address may be forged until the handshake is complete (decision 11)
	if early && h.Clients {
		v.Outcome = TooEarly
		return nil
	}
	if err := e.obey(early); err != nil || v.Outcome != undecided {
		return err
	}
	if err := e.checkConduct(); err != nil {
		return err
	}
	for _, z := range h.Zones {
		matches, err := z.matches(e)
		if err == nil {
			e.note(z.Seen, matches)
		}
		switch {
		case err != nil:
			return err
		case !matches, early && z.EnforcesNothing:
			continue
		case early:
			v.Outcome = TooEarly
			return nil
		}
		switch denied, err := z.charge(e); {
		case err != nil:
			e.decline(z)
			return err
		case denied != nil && z.RefusesNothing:
			z.shadowDeny(e)
		case denied != nil:
			z.deny(e, denied)
		}
		if v.RefusedBy != nil { // decide refuses it; a denial comes first
			if v.Denial != nil {
				v.Outcome = Denied
			}
			return nil
		}
	}
	return nil
}

// isExempt reports whether the request is exempt from all zones.
func (e *Evaluation) isExempt() (bool, error) {
	if len(e.Handler.Exempt) == 0 {
		return false, nil
	}
	return e.anyMatch(e.Handler.Exempt, &e.Handler.ExemptReads, false)
}

// obey applies the operator's rule about the request: it refuses a banned one, and notes an allowed one.
func (e *Evaluation) obey(early bool) error {
	h := e.Handler
	switch s, err := e.Rule(); {
	case err != nil:
		return err
	case s == nil:
	case early: // its address may be forged
		e.Outcome = TooEarly
	case s.Action == rules.Ban:
		e.refuse(Refusal{Policy: h.BannedByOperator, Retry: h.Spread(e.bannedFor(s), &h.BannedByOperator.Rate),
			Reason: engine.Banned})
	default:
		e.Allowed = true
	}
	return nil
}

// The next functions settle the outcome.

// passUnlessDenied passes a request that no limit refuses, unless a zone denies it.
func (v *Verdict) passUnlessDenied() {
	v.Outcome = Passed
	if v.Denial != nil {
		v.Outcome = Denied
	}
}

// passAllowed passes a request that the operator has allowed, unless it lacks the API key that a zone
// requires.
func (e *Evaluation) passAllowed() {
	if e.Denial == nil && e.Client.isRenewable() { // otherwise its session, and the rule about it, would end
		e.passCounted()
		return
	}
	e.passUnlessDenied()
}

// passCounted passes a request with header fields that tell the units left.
func (e *Evaluation) passCounted() { e.Outcome, e.Response = Counted, e.newResponse() }

// refuseByDecision refuses a request as the engine has decided.
func (e *Evaluation) refuseByDecision() {
	p := new(refusedResponse)
	e.fill(&p.Response)
	p.why.fill(e, &e.Decision)
	e.refuseFor(p)
}

// refuse refuses a request regardless of counts. Nothing is counted.
func (e *Evaluation) refuse(why Refusal) {
	p := &refusedResponse{why: why}
	p.why.Config = e.Handler.Config
	e.begin(&p.Response)
	e.refuseFor(p)
}

// refuseTrapped refuses a visit to a trap that bans, like any request of the banned client. It refuses a
// client that may not be banned as well.
func (e *Evaluation) refuseTrapped() {
	d, ok := e.decider.Decide(e.Http.Context(), e.Subject, nil)
	if !ok || d.Reason != engine.Banned {
		d = engine.Decision{Reason: engine.Banned, Retry: e.TrapBan}
	}
	e.Decision, e.trapBans = d, true
	e.notePressure()
	e.refuseByDecision()
}

// breakOff ends a request that waits no longer: its client has gone, or Caddy is stopping.
func (e *Evaluation) breakOff() error {
	switch {
	case e.body.broken != nil:
		return e.body.broken
	case e.Http.Context().Err() != nil:
		return answer.ErrAbandoned
	}
	e.Outcome, e.Waiting = Postponed, 1
	return nil
}

// Forecast forecasts the decisions of a config's engine, and changes nothing.
type Forecast struct{ *Config }

// Decide implements Decider. The debits stay as they are.
func (f Forecast) Decide(ctx context.Context, client *engine.Client,
	debits []engine.Debit) (d engine.Decision, ok bool) {
	inst := f.Use()
	if inst == nil {
		return d, false
	}
	return inst.Forecast(ctx, client, slices.Clone(debits)), true
}
