package tally

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// refusalLog logs the refusals of a zone: a line when a client becomes blocked, at most
// linesPerSecond of them, and a summary of all refusals at each cleanup. So clients can't
// flood the log.
type refusalLog struct {
	zone    string
	refused atomic.Int64 // since the last summary

	mu       sync.Mutex
	second   int64 // guarded by mu: the second that lines were written in
	lines    int   // guarded by mu: in that second
	unlogged int64 // guarded by mu: clients that became blocked without a line
}

const linesPerSecond = 10

// admits reports whether there may be a line now about a client that became
// blocked.
func (l *refusalLog) admits(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if second := now.Unix(); second != l.second {
		l.second, l.lines = second, 0
	}
	if l.lines >= linesPerSecond {
		l.unlogged++
		return false
	}
	l.lines++
	return true
}

// summarize writes how many requests were refused since the last time, if any.
func (l *refusalLog) summarize(log *zap.Logger) {
	refused := l.refused.Swap(0)
	if refused == 0 {
		return
	}
	l.mu.Lock()
	unlogged := l.unlogged
	l.unlogged = 0
	l.mu.Unlock()
	log.Info("requests refused",
		zap.String("zone", l.zone),
		zap.Int64("requests", refused),
		zap.Int64("clients_not_logged", unlogged))
}
