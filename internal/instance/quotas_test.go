package instance

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/notify"
)

// Of a zone one key a minute is notified of. The others are by a later request, and each once a window.
func TestQuotasOfAMinute(t *testing.T) {
	var q quotas
	now := noon
	admits := func(zone, key string, slot int64) bool { return q.admits(zone, 1, []byte(key), window{slot, 100}, now) }
	if !admits("api", "acme", 7) || admits("api", "acme", 7) {
		t.Error("a key isn't notified of, or twice")
	}
	if admits("api", "globex", 7) {
		t.Error("a second key is notified of in the same minute")
	}
	if !admits("other", "initech", 7) {
		t.Error("another zone waits")
	}
	now = now.Add(notify.Spacing)
	if admits("api", "globex", 7) {
		t.Error("a webhook would leave it out")
	}
	now = now.Add(2 * time.Second)
	if admits("api", "acme", 7) || !q.admits("api", 2, []byte("acme"), window{7, 100}, now) {
		t.Error("a limit has a quota of its own")
	}
	now = now.Add(2 * notify.Spacing)
	if !admits("api", "globex", 7) {
		t.Error("a key is forgotten")
	}
	now = now.Add(2 * notify.Spacing)
	if !admits("api", "acme", 8) {
		t.Error("the next window isn't notified of")
	}
	now = now.Add(2 * notify.Spacing)
	if q.admits("api", 1, []byte("acme"), window{8, 50}, now) || !q.admits("api", 1, []byte("acme"), window{8, 150}, now) {
		t.Error("a lower amount is notified of, or a raised one isn't")
	}
	for i := range maxNotified + 5 {
		q.admits(fmt.Sprint(i), 1, []byte("acme"), window{8, 100}, now)
		q.admits("api", 1, fmt.Append(nil, i), window{8, 100}, now.Add(time.Duration(i)*time.Hour))
	}
	if len(q.notified) > maxNotified {
		t.Errorf("%d keys are remembered", len(q.notified))
	}
}

// Of many requests at once one notifies, and none waits.
func TestQuotasOfManyRequests(t *testing.T) {
	var q quotas
	var mu sync.Mutex
	var group sync.WaitGroup
	admitted := 0
	for range 100 {
		group.Go(func() {
			for range 100 {
				if q.admits("api", 1, []byte("acme"), window{7, 100}, noon) {
					mu.Lock()
					admitted++
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	if admitted != 1 {
		t.Errorf("%d of 10,000 requests notify", admitted)
	}
	q.mu.Lock()
	if q.admits("api", 1, []byte("globex"), window{7, 100}, noon.Add(time.Hour)) {
		t.Error("it doesn't give up")
	}
	q.mu.Unlock()
}
