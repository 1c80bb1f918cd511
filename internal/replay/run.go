package replay

import (
	"cmp"
	"context"
	"hash/maphash"
	"io"
	"math"
	"net"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
)

// Options select the requests of a replay and the parts of its report.
type Options struct {
	From, To int64    // nanoseconds since the Unix epoch, From inclusive, To exclusive; 0 for no bound
	Sites    []string // hosts to replay; none for all
	Host     string   // of lines that name none; may be ""
	Zone     string   // the zone to report; "" for all
	Reveal   bool     // whether addresses are shown
	Top      int      // number of a limit's reported clients; 0 means [DefaultTop]
	Suggest  bool     // whether limits are suggested

	Connections bool // whether the config closes connections before TLS

	// Skip reports whether a request is left out; may be nil.
	Skip func(*accesslog.Record) bool

	// Peak is called for each request that a limit counts, with the most units that its client has wanted
	// within a window; may be nil.
	Peak func(*Limit, *accesslog.Record, int64)
}

// run is a replay.
type run struct {
	Options
	log    *accesslog.Merger
	seed   maphash.Seed
	series map[*Limit]*series
	order  []*series

	first, last int64 // of the replayed requests
	now         int64
	outside     int64 // requests before From or after To
	elsewhere   int64 // of other hosts
	span        span  // of all readable requests
	hosts       tally // hosts of those requests
	wouldRefuse int64 // requests that passed, but that a shadow limit would have refused
	outcomes    [Skipped + 1]int64
	skipped     map[string]int64 // by reason
	facts       logFacts
	own         Agreement
}

// lookEvery is the number of lines after which a replay looks whether it is to end.
const lookEvery = 1 << 14

// Run replays a log and returns the report.
func Run(ctx context.Context, log *accesslog.Merger, judge Judge, o Options) (*Report, error) {
	r := &run{
		Options: o, log: log, seed: maphash.MakeSeed(), series: make(map[*Limit]*series),
		skipped: make(map[string]int64), facts: logFacts{hidden: make(map[string]int64)}, hosts: make(tally),
	}
	r.To = cmp.Or(r.To, math.MaxInt64)
	v := new(Verdict)
	for n := 0; ; n++ {
		record, err := log.Next()
		if err == io.EOF {
			return r.report(), nil
		}
		if err != nil {
			return nil, err
		}
		if n%lookEvery == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		if r.wants(record) {
			v.reset()
			r.replay(judge, record, v)
		}
	}
}

// span is a period, from the first time to the last.
type span struct{ first, last int64 }

func (s *span) note(at int64) {
	if s.first == 0 || at < s.first {
		s.first = at
	}
	s.last = max(s.last, at)
}

// wants reports whether a request is replayed.
func (r *run) wants(record *accesslog.Record) bool {
	r.span.note(record.Arrived)
	if record.Arrived < r.From || record.Arrived >= r.To {
		r.outside++
		return false
	}
	if r.Skip != nil && r.Skip(record) {
		return false
	}
	record.Host = cmp.Or(record.Host, r.Host)
	if len(r.Sites) == 0 {
		return true
	}
	host := hostOf(record.Host)
	if !slices.ContainsFunc(r.Sites, func(site string) bool { return strings.EqualFold(hostOf(site), host) }) {
		r.elsewhere++
		r.hosts.add(host)
		return false
	}
	return true
}

// hostOf returns a host without its port, in the form of a host without a port.
func hostOf(host string) string {
	if strings.IndexByte(host, ':') >= 0 {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	return strings.Trim(host, "[].")
}

// replay makes the judge decide about a request, and counts it.
func (r *run) replay(judge Judge, record *accesslog.Record, v *Verdict) {
	r.now = max(r.now, record.Arrived)
	if r.first == 0 {
		r.first = r.now
	}
	r.last = r.now
	r.facts.note(record)
	judge.Judge(record, r.now, v)
	r.outcomes[v.Outcome]++
	r.own.note(record, v)
	if v.Outcome == Skipped {
		r.skipped[v.Reason]++
	}
	for i := range v.Counts {
		peak := r.of(v.Counts[i].Limit).count(&v.Counts[i], record, r.now)
		if r.Peak != nil {
			r.Peak(v.Counts[i].Limit, record, peak)
		}
	}
	if v.By != nil {
		r.of(v.By).refuse(v.Key, v.Reason, record, r.now)
	}
	for _, s := range v.Shadows {
		r.of(s.By).refuse(s.Key, outcomes.WouldRefuse, record, r.now)
	}
	if len(v.Shadows) > 0 {
		r.wouldRefuse++
	}
}

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
