package sleeplock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestHolderMaySleepWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, begun := New(), time.Now()
		l.Lock()
		if l.TryLock() {
			t.Error("two hold it")
		}
		locked := make(chan time.Duration)
		go func() {
			l.Lock()
			defer l.Unlock()
			locked <- time.Since(begun)
		}()
		time.Sleep(time.Hour) // hangs with a mutex
		l.Unlock()
		if after := <-locked; after != time.Hour {
			t.Errorf("locked after %v", after)
		}
		if !l.TryLock() {
			t.Error("nobody holds it, and it can't be locked")
		}
	})
}
