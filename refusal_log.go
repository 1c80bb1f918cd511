package tally

import (
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
	lines   perSecond    // about clients that became blocked
}

const linesPerSecond = 10

// admits reports whether there may be a line now about a client that became
// blocked.
func (l *refusalLog) admits(now time.Time) bool { return l.lines.admits(now, linesPerSecond) }

// summarize writes how many requests were refused since the last time, if any.
func (l *refusalLog) summarize(log *zap.Logger) {
	refused := l.refused.Swap(0)
	if refused == 0 {
		return
	}
	log.Info("requests refused",
		zap.String("zone", l.zone),
		zap.Int64("requests", refused),
		zap.Int64("clients_not_logged", l.lines.takeOmitted()))
}
