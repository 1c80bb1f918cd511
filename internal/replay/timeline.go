package replay

import "time"

// timeline counts requests in steps of time. The steps grow as the log goes on, so that their
// number is bounded.
type timeline struct {
	step   int64 // nanoseconds; 0 before the first request
	begin  int64 // of the first step
	counts []Moment
}

// Moment is the requests in a step of time.
type Moment struct {
	Passed  int64 `json:"passed"`
	Refused int64 `json:"refused"`
}

const (
	maxSteps  = 120
	firstStep = int64(time.Second)
)

func (t *timeline) at(now int64) *Moment {
	if t.step == 0 {
		t.step, t.begin = firstStep, now-now%firstStep
	}
	for (now-t.begin)/t.step >= maxSteps {
		t.double()
	}
	i := int(max(now-t.begin, 0) / t.step)
	for len(t.counts) <= i {
		t.counts = append(t.counts, Moment{})
	}
	return &t.counts[i]
}

// double merges pairs of steps.
func (t *timeline) double() {
	joined := t.counts[:0]
	for i := 0; i < len(t.counts); i += 2 {
		m := t.counts[i]
		if i+1 < len(t.counts) {
			m.Passed += t.counts[i+1].Passed
			m.Refused += t.counts[i+1].Refused
		}
		joined = append(joined, m)
	}
	t.counts = joined
	t.step *= 2
}
