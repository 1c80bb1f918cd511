package dashboard

import (
	"net/http"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// Bounds of a viewer's looks that the audit records: lists of addresses, and questions about
// addresses. Without them, a viewer could find masked addresses by trying, and push older entries
// out of the audit.
const (
	maxLooks   = 60
	lookEvery  = time.Hour / maxLooks
	maxViewers = 1000 // further viewers share one bound
)

// Looks counts the looks of viewers. The zero value has none. It may be used by several goroutines at once.
type Looks struct {
	mu   sync.Mutex
	free map[string]time.Time // guarded by mu: when all looks of a viewer are available again
}

// take counts a look of a viewer. If none is available, it returns an error that tells when the
// next one will be.
func (l *Looks) take(viewer string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.free[viewer]; !known && !l.makeRoomLocked(now) {
		viewer = ""
	}
	free := l.free[viewer]
	if free.Before(now) {
		free = now
	}
	if wait := free.Sub(now) - (maxLooks-1)*lookEvery; wait > 0 {
		return operator.Errorf(http.StatusTooManyRequests, "You have looked at %d addresses or lists of addresses within an hour. The next look is free in %v. The command caddy rate-limit explain has no such bound.", maxLooks, wait.Round(time.Second))
	}
	l.free[viewer] = free.Add(lookEvery)
	return nil
}

// makeRoomLocked reports whether there is room for another viewer.
func (l *Looks) makeRoomLocked(now time.Time) bool {
	if l.free == nil {
		l.free = make(map[string]time.Time)
	}
	if len(l.free) < maxViewers {
		return true
	}
	for viewer, free := range l.free {
		if !free.After(now) {
			delete(l.free, viewer)
		}
	}
	return len(l.free) < maxViewers
}
