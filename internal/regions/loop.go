package regions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

const (
	jitter      = 0.1                    // a turn is early or late by at most this share of an interval
	maxPause    = time.Minute            // between attempts while the exchange can't be used
	callTimeout = 5 * time.Second        // per call of the exchange
	lastTimeout = 2 * time.Second        // for all calls while closing
	urgentAfter = 200 * time.Millisecond // delay that batches bans
	sweepEvery  = time.Minute
	sweepShare  = 4                // sweeps of the exchange take this part of an interval at most
	minPatience = 90 * time.Second // for which others may be silent, at least
	markPeriod  = -2               // the period in which the secret names its mark; that of bans is -1
	remindAfter = time.Minute
)

// loop publishes and collects until it is stopped. It begins soon after the start, so that units
// admitted elsewhere count as soon as possible.
func (r *Regions) loop() {
	defer close(r.done)
	timer, urgent := time.NewTimer(0), false
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			r.sync()
			urgent = false
			timer.Reset(r.pause())
		case <-r.bans.urgent:
			if !urgent && r.failures == 0 {
				urgent = true
				timer.Reset(urgentAfter)
			}
		case <-r.stop:
			r.finish()
			return
		}
	}
}

// pause returns the time until the next sync. Syncs are due at multiples of the interval since the last
// failure, however long they take, and after each failure in a row the interval is twice as long.
func (r *Regions) pause() time.Duration {
	now, pause := time.Now(), r.opts.Interval
	for range r.failures {
		pause = min(2*pause, max(maxPause, r.opts.Interval))
	}
	if r.due = r.due.Add(pause); r.failures > 0 || r.due.Before(now) {
		r.due = now.Add(pause)
	}
	early := time.Duration(float64(pause) * jitter * (1 - 2*rand.Float64()))
	return max(r.due.Sub(now)-early, 0)
}

// sync publishes and collects once. After an error the next sync reopens the exchange.
func (r *Regions) sync() {
	began := time.Now()
	step, err := r.exchangeCounts()
	r.trimSometimes()
	if err == nil {
		r.succeeded(began)
		return
	}
	if r.ctx.Err() == nil {
		r.failed(step, err)
	}
	r.drop()
}

// exchangeCounts takes the steps of a sync, up to one that fails, whose name it returns.
func (r *Regions) exchangeCounts() (failed string, err error) {
	for _, step := range []struct {
		name string
		take func() error
	}{
		{"open", r.open}, {"meet", r.meet}, {"publish", func() error { return r.publish(r.ctx) }},
		{"collect", r.collect},
	} {
		if err := step.take(); err != nil {
			return step.name, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return "", nil
}

// open opens the exchange, unless it is open.
func (r *Regions) open() error {
	if r.exchange != nil {
		return nil
	}
	return r.call(func(ctx context.Context) (err error) {
		r.exchange, err = r.opts.Open(ctx)
		return err
	})
}

// call calls the exchange with a timeout.
func (r *Regions) call(f func(ctx context.Context) error) error {
	return callWithin(r.ctx, callTimeout, f)
}

func callWithin(ctx context.Context, timeout time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return f(ctx)
}

// meet learns of other machines, and checks whether the exchange was replaced by another one: then
// everything is published again.
func (r *Regions) meet() error {
	var met exchange.Met
	me := r.member()
	err := r.call(func(ctx context.Context) (err error) {
		met, err = r.exchange.Meet(ctx, me)
		return err
	})
	if err != nil {
		return err
	}
	r.followTime(met.Now, me.Now, r.opts.Engine.Now())
	others := -1
	for _, n := range met.Neighbors {
		others += n.Machines + n.Gone // those that have gone hide units as well
	}
	if others > r.others { // each may hide fewer units now
		r.markDirty(r.table.all())
	}
	r.others, r.machines = max(others, 0), met.Machines
	if r.id != met.ID || r.after > met.Seq {
		if r.id != 0 {
			r.publishAgain()
		}
		r.id, r.after = met.ID, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.me, r.state.neighbors, r.state.met = me, met.Neighbors, time.Now()
	return nil
}

// member returns this machine as others see it.
func (r *Regions) member() exchange.Member {
	secret, _ := r.opts.Name(0, nil, markPeriod)
	m := exchange.Member{Component: r.me, Secret: secret, Database: r.opts.Database(),
		Patience: max(minPatience, 3*r.opts.Interval)}
	m.Now = r.opts.Engine.Now() // last, because it is compared with the time of the exchange
	return m
}

// finish publishes the remaining units and leaves the exchange.
func (r *Regions) finish() {
	if r.exchange == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTimeout)
	defer cancel()
	if r.publish(ctx) == nil {
		_ = r.exchange.Leave(ctx, exchange.Member{Component: r.me}) // others forget it after a while as well
	}
	r.drop()
}

// drop closes an exchange that isn't used any more.
func (r *Regions) drop() {
	if r.exchange != nil {
		_ = r.exchange.Close() // the error that led to this is more informative
		r.exchange = nil
	}
}

// failed notes a failed sync, and reports it now and then.
func (r *Regions) failed(step string, err error) {
	now := time.Now()
	r.failures++
	if r.failures == 1 {
		r.failing, r.reminded = now, time.Time{}
	}
	r.mu.Lock()
	r.state.failing, r.state.cause = r.failing, err
	r.mu.Unlock()
	r.opts.Observer.Erred(step)
	if r.reminded.IsZero() || now.Sub(r.reminded) >= remindAfter {
		r.reminded = now
		r.opts.Observer.Failed(now.Sub(r.failing), err)
	}
}

// succeeded notes a complete sync: what is known of others is as old as its beginning.
func (r *Regions) succeeded(began time.Time) {
	if r.failures > 0 {
		r.opts.Observer.Recovered(time.Since(r.failing))
	}
	r.failures = 0
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.synced, r.state.failing, r.state.cause = began, time.Time{}, nil
}
