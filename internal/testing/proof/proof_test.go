package proof

import "testing"

func TestTimesAreAShareOfTheWholeDepth(t *testing.T) {
	for _, c := range []struct {
		value                 string
		quick, thorough, want int
	}{
		{"", 30, 5000, 30}, {"0", 30, 5000, 30}, {"1", 30, 5000, 5000}, {"0.05", 30, 5000, 250},
		{"0.001", 30, 5000, 30}, {"20", 30, 5000, 100_000}, {"1", 30, 10, 30},
	} {
		share, err := parse(c.value)
		if err != nil {
			t.Fatal(err)
		}
		if got := times(share, c.quick, c.thorough); got != c.want {
			t.Errorf("PROOF=%s: %d of %d is done %d times, want %d", c.value, c.quick, c.thorough, got, c.want)
		}
	}
}

func TestSharesThatAreNoneAreErrors(t *testing.T) {
	for _, value := range []string{"yes", "-1", "NaN", "Inf", "1e99", " 1"} {
		if share, err := parse(value); err == nil {
			t.Errorf("PROOF=%q is taken for %v", value, share)
		}
	}
}
