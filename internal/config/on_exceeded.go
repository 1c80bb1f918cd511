package config

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// The actions for a request over a limit. They act at different places of a request's path, because
// that is what they are: refuse is what the engine decides. challenge makes another answer of it
// (enforce/challenge.go). delay asks the engine for units of a later time instead (enforce/delay.go).
// pass makes shadow limits of the zone's, of which later handlers see the decisions (enforce/shadow.go).
const (
	onExceededRefuse    = "refuse"
	onExceededChallenge = "challenge"
	onExceededDelay     = "delay"
	onExceededPass      = "pass"
)

var onExceededWords = []string{onExceededRefuse, onExceededChallenge, onExceededDelay, onExceededPass}

// maxMaxDelay is the longest delay.
const maxMaxDelay = time.Minute

// passes reports whether the zone passes requests over its limits. These are shadow limits then,
// and later handlers see their decisions.
func (z *Zone) passes() bool { return z.OnExceeded == onExceededPass }

// refusesNothing reports whether the entire zone refuses nothing.
func (z *Zone) refusesNothing() bool { return z.Shadow || z.passes() }

// checkOnExceeded checks that the action for requests over a limit is possible.
func (z *zoneCompiler) checkOnExceeded() error {
	delay := time.Duration(z.MaxDelay)
	switch {
	case z.MaxDelay != 0 && z.OnExceeded != onExceededDelay:
		return errors.New("max_delay is for on_exceeded delay: write on_exceeded delay 2s")
	case z.PassHeader != "" && !z.passes():
		return errors.New("pass_header is for on_exceeded pass: write on_exceeded pass X-Over-Limit")
	}
	switch z.OnExceeded {
	case "", onExceededRefuse:
		return nil
	case onExceededChallenge:
		return z.checkChallenge()
	case onExceededDelay:
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

// unmarshalOnExceeded reads the action for requests over a limit.
func (z *Zone) unmarshalOnExceeded(d *caddyfile.Dispenser) error {
	if z.OnExceeded != "" {
		return d.Errf("on_exceeded already specified: %s", z.OnExceeded)
	}
	args := d.RemainingArgs()
	switch {
	case len(args) == 0 || !slices.Contains(onExceededWords, args[0]):
		hint := ""
		if len(args) > 0 && args[0] == limitShadow {
			hint = ": write shadow into a line of its own"
		}
		return d.Errf("on_exceeded: must be %s, got %q%s", caddyconf.OrList(onExceededWords), append(args, "")[0], hint)
	case args[0] == onExceededDelay:
		return z.unmarshalDelay(d, args)
	case args[0] == onExceededPass && len(args) == 2:
		z.PassHeader = args[1]
		if slices.Contains(onExceededWords, args[1]) {
			return d.Errf("on_exceeded pass: got %q, where the name of a header field may stand: write only one of %s", args[1], caddyconf.OrList(onExceededWords))
		}
		if err := httpfield.CheckOwn(z.PassHeader); err != nil {
			return d.Errf("on_exceeded pass: %w", err)
		}
	case len(args) > 1:
		return d.Errf("on_exceeded %s: unknown word %q: leave it out", args[0], args[len(args)-1])
	}
	z.OnExceeded = args[0]
	return nil
}

func (z *Zone) unmarshalDelay(d *caddyfile.Dispenser, args []string) error {
	var delay time.Duration
	var err error
	if len(args) == 2 {
		delay, err = caddy.ParseDuration(args[1])
	}
	if err != nil || len(args) != 2 || delay <= 0 {
		return d.Errf("on_exceeded delay takes the longest time that a request waits, got %q: write on_exceeded delay 2s", args[1:])
	}
	z.OnExceeded, z.MaxDelay = onExceededDelay, caddy.Duration(delay)
	return nil
}
