package enforce

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/advice"
)

// Never watches for something that a config is for, such as a request of a zone. If it never happens while other
// requests come, the operator is asked about it, once in the life of the process; status shows the question until it
// happens.
type Never struct {
	*neverSoFar
	most     int64         // how many others may come before
	longest  time.Duration // how long it may take; 0 for ever
	question advice.Advice
}

// neverSoFar is what later configs go on with.
type neverSoFar struct {
	since    time.Time
	others   atomic.Int64
	happened atomic.Bool
	asked    atomic.Bool
}

// nevers has what is watched for in this process. Its names are made of configs, and not of requests.
var nevers sync.Map

// Never returns what watches for something with a name, which goes on after a reload.
func (cfg *Config) Never(name string, most int64, longest time.Duration, question advice.Advice) *Never {
	value, _ := nevers.LoadOrStore(name, &neverSoFar{since: time.Now()})
	n := &Never{neverSoFar: value.(*neverSoFar), most: most, longest: longest, question: question}
	if n.asked.Load() && !n.happened.Load() {
		cfg.Advice.Keep(question)
	}
	return n
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
