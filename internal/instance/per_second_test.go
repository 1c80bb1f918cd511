package instance

import (
	"testing"
	"time"
)

func TestPerSecond(t *testing.T) {
	var b PerSecond
	now := time.Date(2026, 11, 22, 7, 0, 0, 999e6, time.UTC)
	for second := range 3 {
		admitted := 0
		for range 10 {
			if b.Admits(now.Add(time.Duration(second)*time.Second), 4) {
				admitted++
			}
		}
		if admitted != 4 {
			t.Errorf("%d are admitted in second %d, want 4", admitted, second)
		}
	}
	if omitted := b.takeOmitted(); omitted != 3*6 {
		t.Errorf("%d were omitted, want %d", omitted, 3*6)
	}
	if omitted := b.takeOmitted(); omitted != 0 {
		t.Errorf("%d were omitted since", omitted)
	}
}
