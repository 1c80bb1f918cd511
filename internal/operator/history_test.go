package operator

import "testing"

func TestEstimate(t *testing.T) {
	for want, p := range map[string]Precision{
		"":                         {Exact: true, UnitsError: 12},
		"± 0 %":                    {},
		"± 100 %":                  {UnitsError: 100},
		"± 12 %, perhaps more":     {UnitsError: 12, AtLeast: true},
		"very rough":               {UnitsError: 24_295},
		"very rough, perhaps more": {UnitsError: 101, AtLeast: true},
	} {
		if got := p.Estimate(p.UnitsError); got != want {
			t.Errorf("%+v: got %q, want %q", p, got, want)
		}
	}
}
