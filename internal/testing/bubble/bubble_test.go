package bubble

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// Simultaneous access to many timers' channels crashed the race detector.
func TestTimersOfOneMoment(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	for range 20 {
		Test(t, func(t *testing.T) {
			var looking sync.WaitGroup
			for range 32 {
				looking.Go(lookAtTimers)
			}
			looking.Wait()
		})
	}
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("there are %d processors after a bubble, and were %d", after, before)
	}
}

func lookAtTimers() {
	for range 50 {
		var timers [20]*time.Timer
		for i := range timers {
			timers[i] = time.NewTimer(time.Second)
		}
		time.Sleep(time.Second)
		for _, timer := range timers {
			select {
			case <-timer.C:
			default:
			}
		}
	}
}
