package limiter

import (
	"testing"
	"time"
)

// The shares of all processes add up to the share of a single process, rounded down, or to one
// each.
func TestSharesAddUp(t *testing.T) {
	for _, algorithm := range []Algorithm{Sliding, Fixed, TokenBucket} {
		for amount := int64(1); amount <= 40; amount++ {
			l, err := New(Params{Algorithm: algorithm, Amount: amount, Window: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			for _, percent := range []int{1, 30, 40, 99, 100} {
				for n := 1; n <= 7; n++ {
					all, want := int64(0), max(amount*int64(percent)/100, int64(n))
					for process := range n {
						part := l.Share(percent, process, n)
						if part.Capacity() < 1 || part.Capacity() != part.Amount() {
							t.Fatalf("%v %d: process %d of %d has %d, %d", algorithm, amount, process, n, part.Amount(), part.Capacity())
						}
						all += part.Capacity()
					}
					if all != want {
						t.Errorf("%d %% of %d among %d processes are %d, want %d", percent, amount, n, all, want)
					}
				}
			}
		}
	}
}

// A burst is divided as well, and each process has a bucket that is refilled.
func TestSharesOfABurst(t *testing.T) {
	l, err := New(Params{Algorithm: TokenBucket, Amount: 2, Burst: 100, Window: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for process := range 2 {
		if part := l.Share(50, process, 2); part.Amount() != 1 || part.Capacity() != 25 {
			t.Errorf("process %d has %d, %d", process, part.Amount(), part.Capacity())
		}
	}
}
