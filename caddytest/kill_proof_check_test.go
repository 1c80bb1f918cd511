package caddytest

import (
	"testing"
	"time"
)

// admittedAt returns a request of cost 1 that was admitted, by when it was sent and
// answered.
func admittedAt(sent, answered time.Duration) observed {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return observed{sent: noon.Add(sent).UnixNano(), answered: noon.Add(answered).UnixNano(), cost: 1, process: 1, alone: true, admitted: true}
}

func (o observed) of(cost int64) observed   { o.cost = cost; return o }
func (o observed) by(process int) observed  { o.process = process; return o }
func (o observed) withOthers() observed     { o.alone = false; return o }
func (o observed) refused(s int64) observed { o.admitted, o.retry = false, s; return o }
func (o observed) times(n int) (log []observed) {
	for range n {
		log = append(log, o)
	}
	return log
}

func TestProofSeesLimitsExceeded(t *testing.T) {
	const ms = time.Millisecond
	sliding := knownLimit{"sliding", 3, time.Second, 0}
	fixed := knownLimit{"fixed", 3, time.Second, 0}
	bucket := knownLimit{"token_bucket", 10, time.Second, 3}
	for name, c := range map[string]struct {
		limit knownLimit
		log   []observed
		want  int64
	}{
		"nothing":                       {sliding, nil, 0},
		"refusals don't count":          {sliding, admittedAt(0, 10*ms).refused(1).times(9), 0},
		"up to the limit":               {sliding, admittedAt(0, 10*ms).times(3), 3},
		"beyond the limit":              {sliding, admittedAt(0, 10*ms).times(4), 4},
		"beyond it by cost":             {sliding, append(admittedAt(0, 10*ms).times(1), admittedAt(500*ms, 510*ms).of(3)), 4},
		"over a crash":                  {sliding, append(admittedAt(0, 10*ms).times(3), admittedAt(900*ms, 950*ms).by(2)), 4},
		"as soon as it may":             {sliding, append(admittedAt(0, 10*ms).times(3), admittedAt(1000*ms, 1010*ms).times(3)...), 3},
		"answered after the window":     {sliding, append(admittedAt(0, 10*ms).times(3), admittedAt(900*ms, 1005*ms)), 3},
		"answered too late to tell":     {sliding, append(admittedAt(0, 1100*ms).times(3), admittedAt(1050*ms, 1150*ms)), 1},
		"a window inside a longer time": {sliding, append(admittedAt(0, 5*ms).times(1), append(admittedAt(500*ms, 600*ms).times(2), admittedAt(1400*ms, 1450*ms).times(2)...)...), 4},
		"sorted by nothing":             {sliding, append(admittedAt(900*ms, 910*ms).times(2), admittedAt(0, 10*ms).times(2)...), 4},

		"a window up to the limit":  {fixed, admittedAt(100*ms, 200*ms).times(3), 3},
		"a window beyond the limit": {fixed, append(admittedAt(10*ms, 20*ms).times(2), admittedAt(970*ms, 990*ms).times(2)...), 4},
		"around an edge":            {fixed, append(admittedAt(900*ms, 990*ms).times(3), admittedAt(1010*ms, 1100*ms).times(3)...), 3},
		"across an edge":            {fixed, append(admittedAt(900*ms, 990*ms).times(3), admittedAt(950*ms, 1050*ms)), 3},

		"a burst":                          {bucket, admittedAt(0, 10*ms).times(3), 3},
		"beyond a burst":                   {bucket, admittedAt(0, 10*ms).times(4), 4},
		"as it is refilled":                {bucket, append(admittedAt(0, 1*ms).times(3), admittedAt(200*ms, 201*ms).times(2)...), 3},
		"faster than it is refilled":       {bucket, append(admittedAt(0, 1*ms).times(3), admittedAt(150*ms, 151*ms).times(2)...), 4},
		"a slow answer may be of any time": {bucket, append(admittedAt(0, 1*ms).times(3), admittedAt(50*ms, 151*ms)), 3},
		"a second burst too early":         {bucket, append(admittedAt(0, 1*ms).times(3), admittedAt(2000*ms, 2001*ms).times(5)...), 5},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.limit.fullest(c.log); got != c.want {
				t.Errorf("%v: got %d at the fullest, want %d", c.limit, got, c.want)
			}
		})
	}
}

func TestProofSeesBlocksBroken(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	refusal := admittedAt(0, 10*ms).refused(5) // blocked for 4 s at least
	for name, c := range map[string]struct {
		log    []observed
		broken bool
		kept   int
	}{
		"admitted in time":                   {[]observed{refusal, admittedAt(5*s, 5*s+ms)}, false, 0},
		"admitted in the second rounded up":  {[]observed{refusal, admittedAt(4*s, 4*s+ms)}, false, 0},
		"admitted too early":                 {[]observed{refusal, admittedAt(3*s, 3*s+ms)}, true, 0},
		"by the next process":                {[]observed{refusal, admittedAt(3*s, 3*s+ms).by(2)}, true, 0},
		"before it was told":                 {[]observed{refusal, admittedAt(5*ms, 20*ms)}, false, 0},
		"answered in time":                   {[]observed{refusal, admittedAt(3*s, 5*s)}, false, 0},
		"at a lower cost":                    {[]observed{refusal.of(2), admittedAt(3*s, 3*s+ms)}, false, 0},
		"at a higher cost":                   {[]observed{refusal, admittedAt(3*s, 3*s+ms).of(2)}, true, 0},
		"by another process beside it":       {[]observed{refusal.withOthers(), admittedAt(3*s, 3*s+ms).by(2).withOthers()}, false, 0},
		"by the same with others beside it":  {[]observed{refusal.withOthers(), admittedAt(3*s, 3*s+ms).withOthers()}, true, 0},
		"refused by the next process, twice": {[]observed{refusal, admittedAt(s, s+ms).by(2).refused(4), admittedAt(2*s, 2*s+ms).by(2).refused(3)}, false, 1},
		"told again, for less":               {[]observed{refusal, admittedAt(s, s+ms).refused(1), admittedAt(3*s, 3*s+ms)}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			kept, err := checkBlocked(c.log)
			if (err != nil) != c.broken || kept != c.kept {
				t.Errorf("got %d kept, %v; want %d, broken: %v", kept, err, c.kept, c.broken)
			}
		})
	}
}
