package replay

import (
	"context"
	"hash/maphash"
	"io"
	"math"
	"net"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
)

// Options say what is replayed and what for.
type Options struct {
	From, To int64    // nanoseconds since the Unix epoch: from when on, and until before when; 0 for all
	Sites    []string // the hosts whose requests are replayed; none for all
	Zone     string   // the zone that is reported; "" for all
	Reveal   bool     // whether addresses are shown
	Top      int      // how many clients of a limit are reported; 0 means [DefaultTop]
	Suggest  bool     // whether limits are suggested

	// Progress is called now and then; nil if nobody looks.
	Progress func(read, size, lines int64)
}

// run is a replay.
type run struct {
	Options
	log    *accesslog.Merger
	seed   maphash.Seed
	series map[*Limit]*series
	order  []*series

	first, last int64 // of the requests that are replayed
	now         int64
	outside     int64 // requests before From or after To
	elsewhere   int64 // of other hosts
	span        span  // of all requests that could be read
	hosts       tally // of those that are elsewhere
	wouldRefuse int64 // requests that passed and that a shadow limit would have refused
	outcomes    [Skipped + 1]int64
	answered    map[string]int64 // by the handler that answers before any limit
	denied      map[string]int64 // by why
	skipped     map[string]int64 // the same
	facts       logFacts
	own         agreement
	survey      *survey // nil unless limits are suggested
}

// progressEvery is after how many lines progress is told.
const progressEvery = 1 << 14

// Run replays a log, and returns what became of its requests.
func Run(ctx context.Context, log *accesslog.Merger, judge Judge, o Options) (*Report, error) {
	r := &run{
		Options: o, log: log, seed: maphash.MakeSeed(), series: make(map[*Limit]*series),
		answered: make(map[string]int64), denied: make(map[string]int64), skipped: make(map[string]int64), facts: newLogFacts(), hosts: make(tally),
	}
	if r.Suggest {
		r.survey = newSurvey(r.seed)
	}
	if r.To == 0 {
		r.To = math.MaxInt64
	}
	v := new(Verdict)
	for n := 0; ; n++ {
		record, err := log.Next()
		if err == io.EOF {
			return r.report(), nil
		}
		if err != nil {
			return nil, err
		}
		if n%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			r.progress()
		}
		if r.wants(record) {
			v.Reset()
			r.replay(judge, record, v)
		}
	}
}

func (r *run) progress() {
	if r.Progress != nil {
		read, size := r.log.Progress()
		r.Progress(read, size, r.log.Lines)
	}
}

// span is from the first time to the last.
type span struct{ first, last int64 }

func (s *span) note(at int64) {
	if s.first == 0 || at < s.first {
		s.first = at
	}
	s.last = max(s.last, at)
}

// wants reports whether a request is to be replayed.
func (r *run) wants(record *accesslog.Record) bool {
	r.span.note(record.Arrived)
	if record.Arrived < r.From || record.Arrived >= r.To {
		r.outside++
		return false
	}
	if len(r.Sites) == 0 {
		return true
	}
	if record.Host == "" {
		record.Host = r.Sites[0]
	}
	host := hostOf(record.Host)
	if !slices.ContainsFunc(r.Sites, func(site string) bool { return strings.EqualFold(hostOf(site), host) }) {
		r.elsewhere++
		r.hosts.add(host)
		return false
	}
	return true
}

// hostOf returns a host without its port, and as it is written without one.
func hostOf(host string) string {
	if strings.IndexByte(host, ':') >= 0 {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	return strings.Trim(host, "[].")
}

// replay has a request decided about, and counts it.
func (r *run) replay(judge Judge, record *accesslog.Record, v *Verdict) {
	r.now = max(r.now, record.Arrived)
	if r.first == 0 {
		r.first = r.now
	}
	r.last = r.now
	r.facts.note(record)
	if r.survey != nil {
		r.survey.note(record, r.now)
	}
	judge.Judge(record, r.now, v)
	r.outcomes[v.Outcome]++
	r.own.note(record, v)
	switch v.Outcome {
	case Unlimited:
		r.answered[v.Answers]++
	case Denied:
		r.denied[v.Reason]++
	case Skipped:
		r.skipped[v.Reason]++
	}
	for i := range v.Counts {
		r.of(v.Counts[i].Limit).count(&v.Counts[i], record, r.now)
	}
	if v.By != nil {
		r.of(v.By).refuse(v.Key, v.Reason, record, r.now)
	}
	for _, s := range v.Shadows {
		r.of(s.By).refuse(s.Key, inShadow, record, r.now)
	}
	if len(v.Shadows) > 0 {
		r.wouldRefuse++
	}
}

// inShadow is why a shadow limit would refuse a request.
const inShadow = "would_refuse"

// of returns the series of a limit.
func (r *run) of(l *Limit) *series {
	s := r.series[l]
	if s == nil {
		s = newSeries(l, r.seed)
		r.series[l] = s
		r.order = append(r.order, s)
	}
	return s
}
