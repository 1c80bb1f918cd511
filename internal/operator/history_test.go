package operator

import "testing"

func TestEstimate(t *testing.T) {
	for want, p := range map[string]Precision{
		"":                    {Exact: true},
		"about":               {},
		"about, perhaps more": {AtLeast: true},
	} {
		if got := p.Estimate(); got != want {
			t.Errorf("%+v: got %q, want %q", p, got, want)
		}
	}
}
