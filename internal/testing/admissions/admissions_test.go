package admissions

import (
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// at returns a request of cost 1 with its times of sending and answer.
func at(sent, answered time.Duration) Admission {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return Admission{Sent: noon.Add(sent).UnixNano(), Answered: noon.Add(answered).UnixNano(), Cost: 1}
}

func (a Admission) of(cost int64) Admission     { a.Cost = cost; return a }
func (a Admission) times(n int) (l []Admission) { return slices.Repeat([]Admission{a}, n) }

func TestLimitsExceededAreSeen(t *testing.T) {
	sliding := Sliding(3, time.Second)
	fixed := Fixed(3, time.Second)
	bucket := TokenBucket(10, time.Second, 3)
	for name, c := range map[string]struct {
		limit Limit
		log   []Admission
		want  int64
	}{
		"nothing":                       {sliding, nil, 0},
		"up to the limit":               {sliding, at(0, 10*ms).times(3), 3},
		"beyond the limit":              {sliding, at(0, 10*ms).times(4), 4},
		"beyond it by cost":             {sliding, append(at(0, 10*ms).times(1), at(500*ms, 510*ms).of(3)), 4},
		"as soon as it may":             {sliding, append(at(0, 10*ms).times(3), at(1000*ms, 1010*ms).times(3)...), 3},
		"answered after the window":     {sliding, append(at(0, 10*ms).times(3), at(900*ms, 1005*ms)), 3},
		"answered too late to tell":     {sliding, append(at(0, 1100*ms).times(3), at(1050*ms, 1150*ms)), 1},
		"a window inside a longer time": {sliding, append(at(0, 5*ms).times(1), append(at(500*ms, 600*ms).times(2), at(1400*ms, 1450*ms).times(2)...)...), 4},
		"sorted by nothing":             {sliding, append(at(900*ms, 910*ms).times(2), at(0, 10*ms).times(2)...), 4},

		"a window up to the limit":  {fixed, at(100*ms, 200*ms).times(3), 3},
		"a window beyond the limit": {fixed, append(at(10*ms, 20*ms).times(2), at(970*ms, 990*ms).times(2)...), 4},
		"around an edge":            {fixed, append(at(900*ms, 990*ms).times(3), at(1010*ms, 1100*ms).times(3)...), 3},
		"across an edge":            {fixed, append(at(900*ms, 990*ms).times(3), at(950*ms, 1050*ms)), 3},

		"a burst":                          {bucket, at(0, 10*ms).times(3), 3},
		"beyond a burst":                   {bucket, at(0, 10*ms).times(4), 4},
		"as it is refilled":                {bucket, append(at(0, 1*ms).times(3), at(200*ms, 201*ms).times(2)...), 3},
		"faster than it is refilled":       {bucket, append(at(0, 1*ms).times(3), at(150*ms, 151*ms).times(2)...), 4},
		"a slow answer may be of any time": {bucket, append(at(0, 1*ms).times(3), at(50*ms, 151*ms)), 3},
		"a second burst too early":         {bucket, append(at(0, 1*ms).times(3), at(2000*ms, 2001*ms).times(5)...), 5},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.limit.Fullest(c.log); got != c.want {
				t.Errorf("%v: got %d at the fullest, want %d", c.limit, got, c.want)
			}
		})
	}
}
