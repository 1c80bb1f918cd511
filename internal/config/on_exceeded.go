package config

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/wording"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// The actions for a request over a limit. They act at different places of a request's path, because
// that is what they are: refuse is what the engine decides. challenge makes another answer of it
// (enforce/challenge.go). delay asks the engine for units of a later time instead (enforce/delay.go).
// pass makes shadow limits of the zone's, of which later handlers see the decisions (enforce/shadow.go).
const (
	onExceededRefuse    = "refuse"
	OnExceededChallenge = "challenge"
	OnExceededDelay     = "delay"
	onExceededPass      = "pass"
)

var onExceededWords = []string{onExceededRefuse, OnExceededChallenge, OnExceededDelay, onExceededPass}

// maxMaxDelay is the longest delay.
const maxMaxDelay = time.Minute

// Passes reports whether the zone passes requests over its limits. These are shadow limits then,
// and later handlers see their decisions.
func (z *Zone) Passes() bool { return z.OnExceeded == onExceededPass }

// RefusesNothing reports whether the entire zone refuses nothing.
func (z *Zone) RefusesNothing() bool { return z.Shadow || z.Passes() }

// checkOnExceeded checks that the action for requests over a limit is possible.
func (z *zoneCompiler) checkOnExceeded() error {
	delay := time.Duration(z.MaxDelay)
	switch {
	case z.MaxDelay != 0 && z.OnExceeded != OnExceededDelay:
		return errors.New("max_delay is for on_exceeded delay: write on_exceeded delay 2s")
	case z.PassHeader != "" && !z.Passes():
		return errors.New("pass_header is for on_exceeded pass: write on_exceeded pass X-Over-Limit")
	}
	switch z.OnExceeded {
	case "", onExceededRefuse:
		return nil
	case OnExceededChallenge:
		return z.checkChallenge()
	case OnExceededDelay:
		return z.checkDelay(delay)
	case onExceededPass:
		if z.Shadow {
			return errors.New("on_exceeded pass lets all requests through, as shadow does, and says so to later handlers: leave out one of both")
		}
		if z.PassHeader == "" {
			return nil
		}
		return httpfield.CheckOwn(z.PassHeader)
	}
	return fmt.Errorf("on_exceeded: must be %s, got %q", caddyconf.OrList(onExceededWords), z.OnExceeded)
}

// checkChallenge checks that a challenge would help.
func (z *zoneCompiler) checkChallenge() error {
	switch {
	case z.run.Per != enforce.PerClient && z.run.Per != enforce.PerEveryone:
		return fmt.Errorf("on_exceeded challenge is for zones that count per client or everyone, this one counts per %s: a session would not help", z.run.Per)
	case z.app.Session == nil:
		return errors.New("on_exceeded: challenge needs sessions: write `session` into the global option rate_limit")
	}
	return nil
}

func (z *zoneCompiler) checkDelay(delay time.Duration) error {
	switch {
	case delay < time.Millisecond || delay > maxMaxDelay:
		return fmt.Errorf("on_exceeded: delay must be from 1ms to %s, got %v", wording.Duration(maxMaxDelay), delay)
	case z.Shadow:
		return errors.New("on_exceeded delay: no limit of the zone is enforced, so nobody waits while shadow is there: leave out one of both")
	case z.Count != nil && z.Count.Hold:
		return errors.New("on_exceeded delay: units that are held are free again when a request is answered, at no known time: leave out hold, or delay")
	case z.Settle != "":
		return errors.New("on_exceeded delay: settle gives units back when a request ends, at no known time: leave out settle, or delay")
	}
	return nil
}

// onExceededRules are the syntax of `on_exceeded`.
func (z *Zone) onExceededRules() grammar.Rules {
	return grammar.Rules{
		grammar.Line("on_exceeded "+onExceededRefuse+"|"+OnExceededChallenge, &z.OnExceeded),
		grammar.Line("on_exceeded "+OnExceededDelay+" <duration>", &z.MaxDelay).Then(func() error { z.OnExceeded = OnExceededDelay; return nil }),
		grammar.Line("on_exceeded "+onExceededPass+" [<field>]", &z.PassHeader).Then(func() error {
			z.OnExceeded = onExceededPass
			switch {
			case z.PassHeader == "":
				return nil
			case slices.Contains(onExceededWords, z.PassHeader):
				return fmt.Errorf("pass: got %q, where the name of a header field may stand: write only one of %s",
					z.PassHeader, caddyconf.OrList(onExceededWords))
			}
			return httpfield.CheckOwn(z.PassHeader)
		}),
	}
}
