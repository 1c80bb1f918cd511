package enforce

import (
	"encoding/hex"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/identity"
	clients "github.com/caddy-tally/caddy-tally/identity/client"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Client is the identified sender of a request. It is resolved lazily and shared by all handlers
// that the request passes.
type Client struct {
	clients.Client
	Identified bool // whether Client is filled in

	Config  *Config
	Http    *http.Request
	cookies []string // the request's Cookie fields as sent, if one may be a session
	mapped  bool     // its placeholders are set

	subject        *engine.Client // the subject whose record counts; nil if the client gets no violations
	self, parent   engine.Client  // the subject, and its parent
	networkSubject engine.Client  // all clients in its network, once located
}

// clientVar is the request variable that holds the client.
const clientVar = "rate_limit.client"

// HintsOf returns a request's hints about its browser, and about the site that caused the browser
// to send it.
func HintsOf(r *http.Request) identity.Hints {
	h := r.Header
	return identity.Hints{
		UserAgent:      httpfield.First(h["User-Agent"]),
		AcceptLanguage: httpfield.First(h["Accept-Language"]),
		Platform:       httpfield.First(h["Sec-Ch-Ua-Platform"]),
		Mobile:         httpfield.First(h["Sec-Ch-Ua-Mobile"]),
		Initiator: identity.Fetch{
			Method:  r.Method,
			Host:    r.Host,
			TLS:     r.TLS != nil,
			Site:    httpfield.First(h["Sec-Fetch-Site"]),
			Mode:    httpfield.First(h["Sec-Fetch-Mode"]),
			Dest:    httpfield.First(h["Sec-Fetch-Dest"]),
			Origin:  httpfield.First(h["Origin"]),
			Referer: httpfield.First(h["Referer"]),
			Upgrade: httpfield.First(h["Upgrade-Insecure-Requests"]),

			Speculative: httpfield.IsSpeculative(h),
		}.Initiator(),
	}
}

// Record returns the client's record if it is in memory, or nil. While the parent of its subject is
// banned, it returns the parent's.
func (c *Client) Record() *reputation.Record {
	instance := c.Config.Use()
	if instance == nil || c.subject == nil {
		return nil
	}
	if c.subject.Parent != nil {
		record := instance.Engine.CachedRecord(engine.Client{Key: c.subject.Parent.Key})
		if record != nil && record.Banned(instance.Engine.Now()) {
			return record
		}
	}
	return instance.Engine.CachedRecord(engine.Client{Key: c.subject.Key})
}

// maxUnverifiedPoints is the most that an unverified client's record takes off a session's score.
// All senders of the same header fields in a network share that record, and a session is their way
// out of it. A session that lacks this much has 60 % of the limits.
const maxUnverifiedPoints = 50

// passRecordTo takes points off the score of a session that the client earned. A verified client's
// session lacks as many points as the client, any other at most maxUnverifiedPoints.
func (c *Client) passRecordTo(to session.Session) {
	points := c.inheritedPoints()
	if points == 0 || !c.Config.Scores {
		return
	}
	c.Config.punish(&engine.Client{Key: append([]byte{identity.TagSession}, to.ID[:]...)}, reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Inherited},
		Points:    points,
	})
}

// inheritedPoints returns how many points a session of the client lacks. The worse of two records
// counts, the subject's and its parent's. Otherwise a client could leave its record behind with a
// header field that claims that another site sent the solution.
func (c *Client) inheritedPoints() (points int) {
	c.Config.Decide(c.Http.Context(), c.subject, nil) // loads its records into memory
	instance := c.Config.Use()
	for client := c.subject; client != nil && instance != nil; client = client.Parent {
		if record := instance.Engine.CachedRecord(engine.Client{Key: client.Key}); record != nil {
			points = max(points, c.bequest(record, instance.Engine.Now()))
		}
	}
	return points
}

// bequest returns how many points a session of the client lacks because of one record.
func (c *Client) bequest(record *reputation.Record, now int64) int {
	switch {
	case c.Kind.Verified():
		return missingPoints(record, now)
	case record.Banned(now):
		return maxUnverifiedPoints
	}
	return min(missingPoints(record, now), maxUnverifiedPoints)
}

// missingPoints returns how many whole points a score lacks.
func missingPoints(record *reputation.Record, now int64) int {
	return int(math.Round(reputation.Best - record.Score(now)))
}

// ClientPlaceholders are the suffixes of the names of a client's placeholders.
var ClientPlaceholders = []string{"", ".kind", ".verified", ".score", ".violations"}

// mapPlaceholders sets the client's placeholders, which are resolved on use.
func (c *Client) mapPlaceholders(e *Evaluation) {
	if c != nil && !c.mapped {
		c.mapped = true
		e.Repl.Map(c.Placeholder)
	}
}

// Placeholder resolves `http.rate_limit.client` and the names below it.
func (c *Client) Placeholder(key string) (any, bool) {
	name, ours := strings.CutPrefix(key, "http.rate_limit.client")
	if !ours || !slices.Contains(ClientPlaceholders, name) {
		return nil, false
	}
	e := newEvaluation(c.Http)
	defer e.Release()
	e.Client = c
	e.identify()
	switch name {
	case ".kind":
		return c.Kind.String(), true
	case ".verified":
		return c.Kind.Verified(), true
	case ".score":
		return c.score(), true
	case ".violations":
		return c.violations(), true
	}
	return c.name(), true
}

// score returns the client's score in whole points, or nothing if it has none.
func (c *Client) score() string {
	record := c.Record()
	if record == nil {
		return ""
	}
	return strconv.Itoa(int(record.Score(c.Config.Use().Engine.Now())))
}

// toldViolations bounds how many of a client's last violations its placeholder lists.
const toldViolations = 8

// violations returns the reasons of the client's last violations, the last one
// first.
func (c *Client) violations() string {
	record := c.Record()
	if record == nil {
		return ""
	}
	var reasons []string
	for _, v := range slices.Backward(record.Past[max(len(record.Past)-toldViolations, 0):]) {
		reasons = append(reasons, v.Reason.String())
	}
	return strings.Join(reasons, ", ")
}

// name returns an opaque name of the client. The name of a verified client never changes, other
// names change every day. It is empty while there is no secret.
func (c *Client) name() string {
	instance := c.Config.Use()
	if instance == nil {
		return ""
	}
	name, ok := instance.Names.Opaque(c.Key, c.Kind.Verified())
	if !ok {
		return ""
	}
	return hex.EncodeToString(name[:])
}

// identify identifies the request's client and returns it.
func (e *Evaluation) identify() *Client {
	c := e.Client
	if c.Identified {
		return c
	}
	c.Identified = true
	c.Identify(evidence{e})
	c.networkSubject.Key = c.NetworkKey()
	if c.Subject() != nil {
		c.self.Key, c.subject = c.Subject(), &c.self
	}
	if c.Parent() != nil {
		c.parent.Key, c.self.Parent = c.Parent(), &c.parent
	}
	return c
}

// locateFrom determines the client's network.
func (c *Client) locateFrom(e *Evaluation) {
	c.Locate(evidence{e})
	c.networkSubject.Key = c.NetworkKey()
}

// evidence is the information about its sender in a request's HTTP fields.
type evidence struct{ *Evaluation }

var _ clients.Evidence = evidence{}

// Service implements clients.Evidence.
func (e evidence) Service() (tier string, ok bool) {
	by := e.authenticate(e.Client.Config)
	return by.Tier, by.Service
}

// APIKey implements clients.Evidence.
func (e evidence) APIKey() string { return e.authenticate(e.Client.Config).Name }

// Network implements clients.Evidence.
func (e evidence) Network() (network netip.Prefix, claimed bool) {
	cfg := e.Client.Config
	if claimed = e.IsClaimed(); claimed && !e.forecasts {
		cfg.noteClaim()
	}
	network, _ = cfg.network(e.ClientIP())
	return network, claimed
}

// Session implements clients.Evidence.
func (e evidence) Session(network []byte) (s session.Session, ok, forged bool) {
	return e.Client.shownSession(network)
}

// Hints implements clients.Evidence.
func (e evidence) Hints() identity.Hints { return HintsOf(e.Client.Http) }
