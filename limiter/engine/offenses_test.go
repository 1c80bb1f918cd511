package engine

import (
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// A client that waits as long as it was told passes then, also if it was told so
// by the refusal that was a violation.
func TestRetryIsTrueForWhoIsPunished(t *testing.T) {
	for _, test := range []struct {
		name   string
		points int
		ban    reputation.Ban
	}{
		{"ban", 0, reputation.Ban{After: 1, Within: time.Hour, For: 3 * time.Hour}},
		{"level", 100, reputation.Ban{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, fair := newFixture(t), fairly(t, 10, time.Hour, test.points)
			fair.Ban = test.ban
			for range 2 {
				if got := f.passing(5, "a", fair); got != 5 {
					t.Fatalf("%d of 5 passed", got)
				}
				f.fake.advance(20 * time.Minute)
			}
			d := f.from("a", fair)
			if d.Allowed || d.Retry <= 0 {
				t.Fatalf("one more: %+v", d)
			}
			f.fake.advance(d.Retry)
			if then := f.from("a", fair); !then.Allowed {
				t.Errorf("was told to wait %v, and then %+v", d.Retry, then)
			}
		})
	}
}

// A fall to a lower level leaves more to spare before the next violation, but
// there is none in the same window.
func TestViolationsAreOncePerWindowWhateverTheLevel(t *testing.T) {
	f, fair := newFixture(t), fairly(t, 100, time.Hour, 30)
	fair.Ban = reputation.Ban{}
	for range 200 {
		f.from("a", fair)
		f.fake.advance(leastBetween)
	}
	f.from("b", fair) // goes through the committer, and so what was before it has
	f.score("a", 1)
}
