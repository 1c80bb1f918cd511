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

func TestProofSeesBlocksBroken(t *testing.T) {
	t.Parallel()
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
