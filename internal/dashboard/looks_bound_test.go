package dashboard

import (
	"testing"
	"time"
)

// Viewers beyond the bound of memory share a bound of looks.
func TestLooksOfManyViewersAreBounded(t *testing.T) {
	var looks Looks
	now, refused := time.Now(), 0
	for i := range 1100 {
		if looks.take(time.Duration(i).String(), now) != nil {
			refused++
		}
	}
	if refused != 40 {
		t.Errorf("%d looks of 1100 viewers are refused, want 40", refused)
	}
}
