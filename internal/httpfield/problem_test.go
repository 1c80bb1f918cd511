package httpfield

import (
	"net/http"
	"strings"
	"testing"
)

// For all values of Accept, a client gets a problem detail only if it names one, however it splits
// the field.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{
		"", "*/*", ProblemType, ProblemType + ";q=0", "text/html, " + ProblemType + ";q=0.5", ProblemType + ";q=1e400",
		ProblemType + ";Q=0.3;q=0.9, application/json;q=0.3", ",;=,;q=," + ProblemType + ";;;q=NaN", ProblemType + "x", "q=" + ProblemType,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		prefers := PrefersProblem(http.Header{"Accept": {accept}})
		if prefers && !strings.Contains(accept, ProblemType) {
			t.Errorf("%q is taken for a wish for %s", accept, ProblemType)
		}
		if split := PrefersProblem(http.Header{"Accept": strings.Split(accept, ",")}); split != prefers {
			t.Errorf("%q in one field: %v, in several: %v", accept, prefers, split)
		}
		if !prefers && PrefersProblem(http.Header{"Accept": {accept, "text/html"}}) {
			t.Errorf("%q together with another type is more of a wish", accept)
		}
		for params := range strings.SplitSeq(accept, ",") {
			if q := qualityOf(params); !(q >= 0 && q <= 1) {
				t.Errorf("the weight of %q is %v", params, q)
			}
		}
	})
}
