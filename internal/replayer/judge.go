package replayer

import (
	"context"
	"net/http"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/storage"
)

// judge decides about requests of a log like the handlers of a config.
type judge struct {
	config  *Config
	servers map[string][]*caddyhttp.Server // by port, in the order of trying
	clock   logClock
	came    int64 // when the latest request came; the clock may be ahead
	swept   int   // requests since the last sweep of the store
	limits  map[*enforce.Policy]*replay.Limit
	same    map[limitKey]*replay.Limit
	needs   map[*enforce.Zone][]need
	started *instance.Instance // nil before the first request
	garbage *collector
	request requests
}

func newJudge(config *Config) *judge {
	return &judge{
		config: config, servers: make(map[string][]*caddyhttp.Server),
		limits: make(map[*enforce.Policy]*replay.Limit), same: make(map[limitKey]*replay.Limit),
		needs:   make(map[*enforce.Zone][]need),
		garbage: newCollector(),
	}
}

const (
	// maxKeys bounds the engine's counts in memory. The store holds all of them, and is in memory
	// too.
	maxKeys = 1 << 14
	// sweepAfter is the number of requests between sweeps of the store.
	sweepAfter = 1 << 17
	// adjustAfter is the number of requests between adjustments of the garbage collector.
	adjustAfter = 1 << 12
)

// start starts the engine at the time of the first request.
func (j *judge) start(now int64) {
	j.came, j.clock.Start = now, now
	j.clock.Now.Store(now)
	cfg := j.config.run
	j.started = instance.NewWith(cfg.Settings, cfg.Store, func(o *engine.Options) {
		o.Clock, o.MaxKeys = &j.clock, maxKeys
		// in the process's time, which is unrelated to the log's
		o.StoreTimeout, o.CleanupInterval = 5*time.Minute, 24*time.Hour
	})
	cfg.Instance.Store(j.started)
	cfg.Settle()
	forgetLoad(cfg.AllZones)
	j.started.Rules.Store(cfg.Rules)
	if cfg.APIKeys != nil {
		j.started.Keys.Store(cfg.APIKeys.Keys)
	}
	<-j.started.Engine.Ready()
}

// forgetLoad removes the conditions of zones that logs can't decide. Conditions on rates stay.
func forgetLoad(zones []*enforce.Zone) {
	for _, z := range zones {
		for _, s := range z.When {
			if _, known := s.Measure.(*load.Rate); !known {
				s.Measure = load.None{}
			}
			s.Changed = nil
		}
	}
}

// close ends the engine.
func (j *judge) close() error {
	j.garbage.restore()
	if j.started == nil {
		return nil
	}
	return j.started.Destruct()
}

// Judge implements replay.Judge.
func (j *judge) Judge(r *accesslog.Record, now int64, v *replay.Verdict) {
	if err := j.advance(now); err != nil {
		v.Outcome, v.Reason = replay.Skipped, err.Error()
		return
	}
	request, err := j.request.of(r)
	if err != nil {
		v.Outcome, v.Reason = replay.Skipped, err.Error()
		return
	}
	for _, server := range j.serversFor(r) {
		if j.judgeAt(server, request, r, v) {
			return
		}
	}
}

// advance sets the clock to the time of a request.
func (j *judge) advance(now int64) error {
	if j.started == nil {
		j.start(now)
		return nil
	}
	j.came = now
	j.clock.Now.Store(max(now, j.clock.Now.Load()))
	if j.swept++; j.swept%adjustAfter == 0 {
		j.garbage.adjust()
	}
	if j.swept%sweepAfter == 0 {
		return j.started.Engine.SweepStore()
	}
	return nil
}

// judgeAt decides about a request at a server, and reports whether the request belongs to that
// server.
func (j *judge) judgeAt(server *caddyhttp.Server, request *http.Request, r *accesslog.Record, v *replay.Verdict) bool {
	request = routing.Prepare(server, request)
	if r.ClientIP != r.RemoteIP { // the server that wrote the log found the client behind proxies
		vars := request.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
		vars[caddyhttp.ClientIPVarKey] = Address(r.ClientIP)
	}
	asked := false
	answers, err := routing.FollowPrepared(server, request,
		func(handler caddyhttp.MiddlewareHandler, request *http.Request) bool {
			if h := enforce.EnforcerOf(handler); h != nil {
				asked = true
				return j.decide(h, request, r, v)
			}
			if _, ok := handler.(*caddyauth.Authentication); ok {
				return authenticated(request, r)
			}
			return true
		})
	if err != nil {
		v.Outcome, v.Reason = replay.Skipped, "a matcher of the config fails"
		return true
	}
	return asked || answers != ""
}

// authenticated passes the user to the handlers behind authentication, and reports whether the
// request reached them: not if the log has a 401.
func authenticated(request *http.Request, r *accesslog.Record) bool {
	if r.User == "" {
		return r.Status != http.StatusUnauthorized
	}
	request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set("http.auth.user.id", r.User)
	return true
}

// decide makes a handler decide about a request, and reports whether the request continues.
func (j *judge) decide(h *enforce.Handler, request *http.Request, r *accesslog.Record, v *replay.Verdict) bool {
	e := h.Begin(request).By(decider{h.Config, j})
	defer e.Release()
	result, err := e.Decide()
	open, denied := e.Pending(nil), err == nil && result.Outcome == enforce.Denied
	if denied {
		open.Deny(result.Denial.Status)
	} else {
		open.Settle(r.Status, nil)
		open.Finish(usageOf(r))
	}
	for i, p := range e.Policies {
		if !p.Zone.Count.AnsweredAlike(r.Status) || denied && p.Zone.Settle != nil {
			continue
		}
		v.Counts = append(v.Counts, replay.Count{
			Limit: j.limit(p), Key: v.Copy(e.Debits[i].Key), Cost: usedOf(p.Zone, e.Debits[i].Cost, r),
			Unknown: j.unknown(p.Zone, r),
		})
	}
	if err != nil {
		v.Outcome, v.Reason = replay.Skipped, "a matcher or a placeholder of the config fails"
		return false
	}
	switch result.Outcome {
	case enforce.Passed, enforce.Counted:
		if result.Outcome == enforce.Counted || len(e.Shadows.Debits) > 0 {
			v.Outcome = replay.Passed
		}
		j.judgeShadows(e, r, v)
		return true
	case enforce.Refused, enforce.Challenged:
		by := result.Refusal
		v.Outcome, v.By, v.Key, v.Reason = replay.Refused, j.limit(by.Policy), v.Copy(by.Key), meter.Outcomes[by.Reason]
	case enforce.Denied:
		v.Outcome, v.Reason = replay.Denied, result.Denial.Text
	}
	return false
}

// decider is the engine of a replay. It waits by the clock of the log, which it sets.
type decider struct {
	*enforce.Config
	judge *judge
}

// Clock implements enforce.Decider.
func (d decider) Clock() (came, now time.Time) {
	return time.Unix(0, d.judge.came), time.Unix(0, d.judge.clock.Now.Load())
}

// Sleep implements enforce.Decider. Later requests of the log are then decided about a little late.
func (d decider) Sleep(_ context.Context, wait time.Duration) bool {
	d.judge.clock.Now.Add(int64(wait))
	return true
}

// usageOf returns the use of a request, as far as its record tells. Placeholders are unknown. An answer
// to HEAD has no body, although Caddy logs the size of one.
func usageOf(r *accesslog.Record) settle.Usage {
	if r.Method == http.MethodHead {
		return settle.Usage{Duration: time.Duration(r.Duration)}
	}
	return settle.Usage{Bytes: r.Size, Duration: time.Duration(r.Duration)}
}

// usedOf returns the units that a request with a cost has used.
func usedOf(z *enforce.Zone, cost int64, r *accesslog.Record) int64 {
	if z.Settle == nil {
		return cost
	}
	return z.Used(cost, usageOf(r))
}

// judgeShadows adds the decisions of shadow limits about a passing request.
func (j *judge) judgeShadows(e *enforce.Evaluation, r *accesslog.Record, v *replay.Verdict) {
	if len(e.Shadows.Debits) == 0 {
		return
	}
	refusedBy := e.ShadowVerdicts().All()
	for i, p := range e.Shadows.Policies {
		key := v.Copy(e.Shadows.Debits[i].Key)
		if p.Zone.Count.AnsweredAlike(r.Status) {
			v.Counts = append(v.Counts,
				replay.Count{Limit: j.limit(p), Key: key, Cost: usedOf(p.Zone, e.Shadows.Debits[i].Cost, r),
					Unknown: j.unknown(p.Zone, r)})
		}
		if slices.Contains(refusedBy, p) {
			v.Shadows = append(v.Shadows, replay.Shadow{By: j.limit(p), Key: key})
		}
	}
}

// limitKey is equal for limits that count together.
type limitKey struct {
	id         storage.LimitID
	zone, name string
	amount     int64
	shadow     bool
}

// limit describes a limit. Limits of several handlers that count together share a description.
func (j *judge) limit(p *enforce.Policy) *replay.Limit {
	if l := j.limits[p]; l != nil {
		return l
	}
	key := limitKey{zone: p.Zone.Name, name: p.Name, shadow: p.Shadow}
	if p.Limit.ID != 0 {
		key.id, key.amount = p.Limit.ID, p.Capacity()
	}
	l := j.same[key]
	if l == nil {
		l = describe(p)
		j.same[key] = l
	}
	j.limits[p] = l
	return l
}

func describe(p *enforce.Policy) *replay.Limit {
	l := &replay.Limit{Zone: p.Zone.Name, Name: p.Name, Shadow: p.Shadow, Shared: p.Of != nil}
	if p.Limit.ID == 0 { // a ban
		return l
	}
	l.Text, l.Amount, l.Rate, l.Counts = p.Text(), p.Capacity(), p.Rate, true
	l.Per = p.Zone.Per
	if l.Per == enforce.PerKey {
		l.Per += " " + p.Zone.Key
	}
	return l
}

// serversFor returns the servers that may have received a request, those that listen on its port
// first. If the log doesn't tell whether it came over TLS, it assumes so: a server for plain HTTP
// mostly redirects.
func (j *judge) serversFor(r *accesslog.Record) []*caddyhttp.Server {
	_, port := splitPort(r.Host)
	switch {
	case port != "":
	case r.TLS, !r.SchemeKnown:
		port = "443"
	default:
		port = "80"
	}
	if known, ok := j.servers[port]; ok || len(j.servers) > maxPorts {
		return known
	}
	listening, others := routing.ServersOn(port, j.config.servers)
	j.servers[port] = append(listening, others...)
	return j.servers[port]
}

// maxPorts bounds the number of cached ports, because clients choose them.
const maxPorts = 1000

// logClock is a clock with the time of a log.
type logClock struct {
	Start int64 // in nanoseconds since the Unix epoch
	Now   atomic.Int64
}

// Read implements engine.Clock.
func (c *logClock) Read() (r storage.Reading, elapsed int64) {
	now := c.Now.Load()
	return storage.Reading{Wall: now, Steady: now, Source: storage.Source{1}, Shared: true}, now - c.Start
}

// Elapsed implements engine.Clock.
func (c *logClock) Elapsed() int64 { return c.Now.Load() - c.Start }

var _ engine.Clock = (*logClock)(nil)

// A replay makes much garbage. It is collected rarely while little memory is in use, and otherwise
// adds little to the memory in use.
const (
	usualMemory = 96 << 20 // memory in use that triggers a collection
	leastSpare  = 16 << 20 // of it, garbage
)

// collector sets how often the garbage collector runs.
type collector struct {
	live        []runtimemetrics.Sample
	before, now int // percent
}

func newCollector() *collector {
	c := &collector{live: []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	c.before = debug.SetGCPercent(100)
	c.adjust()
	return c
}

// adjust adapts the percentage to the memory in use. Call it often, because the percentage applies
// to the memory in use later.
func (c *collector) adjust() {
	runtimemetrics.Read(c.live)
	live := max(c.live[0].Value.Uint64(), 4<<20)
	percent := int(max(usualMemory-min(live, usualMemory), leastSpare) * 100 / live)
	if 4*percent > 3*c.now && 4*percent < 5*c.now {
		return
	}
	c.now = percent
	debug.SetGCPercent(percent)
}

// restore restores the former setting.
func (c *collector) restore() { debug.SetGCPercent(c.before) }
