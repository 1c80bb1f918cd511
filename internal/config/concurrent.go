package config

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/gate"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Concurrent bounds the requests of a key in flight. A request is in flight from its arrival until
// its answer is complete; a WebSocket until it is closed. Each Caddy process counts separately.
type Concurrent struct {
	// The number of requests, from 1 to 1000000. Required.
	Requests int64 `json:"requests,omitempty"`

	// How long a further request waits for another one to end, at most 5m; in the order of arrival.
	// Default: it is refused at once.
	Wait caddy.Duration `json:"wait,omitempty"`

	// How many requests of a key may wait at a time, from 1 to 10000; those of all keys together
	// are at most 10000. Default: 100.
	Queue int `json:"queue,omitempty"`
}

const (
	maxConcurrent = 1_000_000
	maxWait       = 5 * time.Minute
	defaultQueue  = 100
)

// check returns an error if the option is invalid.
func (c *Concurrent) check() error {
	switch wait := time.Duration(c.Wait); {
	case c.Requests < 1 || c.Requests > maxConcurrent:
		return fmt.Errorf("must be from 1 to %d requests, got %d", maxConcurrent, c.Requests)
	case wait < 0 || wait > maxWait:
		return fmt.Errorf("wait: must be at most %v, got %v", maxWait, wait)
	case c.Queue < 0 || c.Queue > gate.MaxWaiting:
		return fmt.Errorf("queue: must be from 1 to %d requests, got %d", gate.MaxWaiting, c.Queue)
	case c.Queue > 0 && wait == 0:
		return fmt.Errorf("queue is for requests that wait: write limit %d concurrent wait 5s queue %d",
			c.Requests, c.Queue)
	}
	return nil
}

// checkUnits returns an error about the first option that is for units in a zone that counts none: it
// only bounds requests in flight.
func (z *Zone) checkUnits() error {
	if z.Concurrent == nil || len(z.Limits) > 0 || z.Tiers || z.Tier != "" || z.Window != 0 || z.MaxEvents != 0 {
		return nil
	}
	for _, option := range []struct {
		name  string
		given bool
	}{{"settle", z.Settle != ""}, {"cost", z.Cost != "" || len(z.Costs) > 0}, {"max_cost", z.MaxCost != 0},
		{"count", z.Count != nil}} {
		if option.given {
			return fmt.Errorf(
				"%s: limit concurrent counts requests and not units: write a limit such as 100_000/1h, too",
				option.name)
		}
	}
	if z.OnExceeded == OnExceededDelay {
		return fmt.Errorf(
			"on_exceeded delay waits for units, and limit concurrent has none: write limit %d concurrent wait 5s",
			z.Concurrent.Requests)
	}
	return nil
}

// rule returns the option ready for use.
func (c *Concurrent) rule() gate.Rule {
	return gate.Rule{Most: c.Requests, Wait: time.Duration(c.Wait), Queue: cmp.Or(c.Queue, defaultQueue)}
}

// compileConcurrent compiles the option.
func (z *zoneCompiler) compileConcurrent() error {
	c := z.Concurrent
	if c == nil {
		return nil
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("concurrent: %w", err)
	}
	if err := z.checkUnits(); err != nil {
		return err
	}
	for _, l := range z.Limits {
		if l.Name == z.concurrentName() {
			return fmt.Errorf("limit: two limits are named %q; name one of them otherwise with `name`", l.Name)
		}
	}
	arithmetic := concurrency(c.Requests)
	ceiling := int64(0)
	if z.run.Per == enforce.PerClient {
		ceiling = z.ceiling()
	}
	limit := z.app.limit(limitID(z.countedAs(""), Limit{Algorithm: "concurrent"}, 0), arithmetic)
	z.run.Concurrency = enforce.NewConcurrency(z.run, z.Name, z.concurrentName(), limit, c.rule(), ceiling)
	z.shareBound()
	return nil
}

// concurrency returns what stands for a number of places in the arithmetic. The number is at least 1.
func concurrency(most int64) limiter.Limit {
	l, err := limiter.New(limiter.Params{Algorithm: limiter.TokenBucket, Amount: min(most, limiter.MaxAmount),
		Window: limiter.MinWindow})
	if err != nil {
		panic(err) // the parameters are valid
	}
	return l
}

// shareBound makes the smallest number hold in all zones of the name, which count together.
func (z *zoneCompiler) shareBound() {
	own := z.run.Concurrency
	for _, other := range z.app.Run.AllZones {
		c := other.Concurrency
		if c == nil || c.Gate != own.Gate || c.Most == own.Most {
			continue
		}
		most := min(c.Most, own.Most)
		z.note(
			fmt.Sprintf(
				"limit: zones of one name count together, and have %d and %d concurrent: %d hold in all of them",
				c.Most, own.Most, most),
			fmt.Sprintf("limit %d concurrent in all of them, or another name", most))
		c.SetMost(most)
		own.SetMost(most)
	}
}

// concurrentName returns the name that stands for a limit's in refusals.
func (z *Zone) concurrentName() string {
	return strings.Join([]string{z.Name, "concurrent"}, "-")
}

// setConcurrent sets the bound of requests in flight.
func (z *Zone) setConcurrent(c *Concurrent) error {
	if z.Concurrent != nil {
		return fmt.Errorf("concurrent is given twice: write the lower number of %d and %d",
			z.Concurrent.Requests, c.Requests)
	}
	z.Concurrent = c
	if err := c.check(); err != nil {
		return fmt.Errorf("concurrent: %w", err)
	}
	return nil
}
