//go:build !race

package session

import "testing"

// Not under the race detector, which makes sync.Pool forget at random.
func TestVerifyingAllocatesNothing(t *testing.T) {
	s := newSigner(t, oneSecret)
	_, value := issue(s)
	if n := testing.AllocsPerRun(100, func() { s.Verify(t0, here, home, value) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
