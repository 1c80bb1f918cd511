package enforce

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/advice"
)

// Never watches for something that a config is for, such as a request of a zone. If it never happens while other
// requests come, the operator is asked about it, once: configs that follow go on. status shows the question until it
// happens.
type Never struct {
	*neverSoFar
	most     int64         // how many others may come before
	longest  time.Duration // how long it may take; 0 for ever
	question advice.Advice
}

// neverSoFar is what a config that follows goes on with.
type neverSoFar struct {
	since    time.Time
	others   atomic.Int64
	happened atomic.Bool
	asked    atomic.Bool

	mu    sync.Mutex
	names []string // guarded by mu: of others that count once
}

// Follow makes the config the next one of a running Caddy, before anything is given or watched for.
func (cfg *Config) Follow(earlier *Config) {
	cfg.Advice.Follow(&earlier.Advice)
	cfg.earlier = earlier.nevers
}

// Never returns what watches for something with a name.
func (cfg *Config) Never(name string, most int64, longest time.Duration, question advice.Advice) *Never {
	soFar := cmp.Or(cfg.nevers[name], cfg.earlier[name])
	if soFar == nil {
		soFar = &neverSoFar{since: time.Now()}
	}
	cfg.nevers[name] = soFar
	n := &Never{neverSoFar: soFar, most: most, longest: longest, question: question}
	if n.asked.Load() && !n.happened.Load() {
		cfg.Advice.Keep(question)
	}
	return n
}

// note notes a request, unless it is only forecast.
func (e *Evaluation) note(n *Never, happens bool) {
	if n != nil && !e.forecasts {
		e.Handler.Config.note(n, happens)
	}
}

// note notes a request: it is what n watches for, or another one. Once it has happened, this takes one atomic load.
func (cfg *Config) note(n *Never, happens bool) {
	switch {
	case n == nil || n.happened.Load():
	case happens:
		if n.happened.Store(true); n.asked.Load() {
			cfg.Advice.Drop(n.question)
		}
	case n.asked.Load():
	case n.others.Add(1) >= n.most || n.longest > 0 && time.Since(n.since) > n.longest:
		if n.asked.CompareAndSwap(false, true) {
			_ = cfg.Advice.Give(cfg.Log, n.question) // a warning is no error
		}
	}
}

// noteOnce notes another request than n watches for, once for each name. Nobody waits: a later one of the name counts.
func (cfg *Config) noteOnce(n *Never, name string) {
	if !n.mu.TryLock() {
		return
	}
	defer n.mu.Unlock()
	if !slices.Contains(n.names, name) && !n.asked.Load() {
		n.names = append(n.names, name)
		cfg.note(n, false)
	}
}
