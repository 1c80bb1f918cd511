package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// This file keeps a sample of requests in memory, refused ones and ones that were let in, so that operators see
// those from before they looked (decision 168). It adds at most requestsPerSecond of either a second, and writes
// nothing to disk. The path is shortened to its class, because a whole path may be personal data (decision 124).

// Bounds of the sample, and of a client's values in it.
const (
	maxSampled     = 2048 // requests of either kind, less than 1 MB
	recentRequests = 15 * time.Minute
	maxAgent       = 100 // bytes
	maxHost        = 255 // bytes
	maxLatest      = 50  // refusals in the list
	maxShares      = 10  // of requests by a property
)

// Request is a request in the sample.
type Request struct {
	At      time.Time // set by Add
	Address string    // the key of the client's address; "" if that isn't known
	Counted []Counted // first by the zone that refused it, if one did
	Path    string    // in the sample, its class
	Agent   string    // in the sample, shortened
	Host    string
	Network string // of the client, masked; "" if it isn't known
	Country string // "" unless it is known
	ASN     string // "" unless it is known
	Refusal *Refusal
	refused bool // guarded by the watchers' mu: a later handler has refused what this one let in, or it was withdrawn
	sample  *Watchers
}

// Counted is a zone that has counted a request, or would have, and its key there, of at most 128 bytes.
type Counted struct{ Zone, Key string }

// Refusal is why a request was refused.
type Refusal struct {
	Zone   string
	Limit  string
	Reason string        // as in metrics
	Retry  time.Duration // how long to wait, or limiter.Never
}

// In reports whether the request is one that a zone refused, if it was refused, or else one that it counted. "" is
// any zone. The request is then known by its key there.
func (r *Request) In(zone string) bool {
	if zone == "" {
		return true
	}
	i := slices.IndexFunc(r.Counted, func(c Counted) bool { return c.Zone == zone })
	if r.Refusal != nil {
		return r.Refusal.Zone == zone
	}
	if i >= 0 {
		r.Counted = r.Counted[i:]
	}
	return i >= 0
}

// IsOf reports whether one of the request's keys is wanted. The request is then known by that key.
func (r *Request) IsOf(wanted func(key string) bool) bool {
	i := slices.IndexFunc(r.Counted, func(c Counted) bool { return wanted(c.Key) })
	if i >= 0 {
		r.Counted = r.Counted[i:]
	}
	return i >= 0
}

// Key returns the key that the request is known by, or "": the first one that is not everyone's, or else that of its
// address.
func (r *Request) Key() string {
	for _, c := range r.Counted {
		if c.Key != "" && c.Key[0] != identity.TagEveryone {
			return c.Key
		}
	}
	return r.Address
}

// Matches reports whether the request has what a query asks for, besides its zone and client.
func (r *Request) Matches(q operator.RefusalsQuery) bool {
	text, _ := describeKey(r.Key())
	agent, found := cmp.Or(r.Agent, noAgent), q.Text == ""
	for _, value := range [...]struct{ wanted, has string }{
		{q.Path, r.Path}, {q.Agent, agent}, {q.Network, r.Network}, {strings.ToUpper(q.Country), r.Country},
		{providerOf(q.Provider), r.ASN}, {"", text}, {"", r.Host},
	} {
		if value.wanted != "" && value.wanted != value.has {
			return false
		}
		found = found || strings.Contains(strings.ToLower(value.has), strings.ToLower(q.Text))
	}
	return found
}

// providerOf returns the number of a provider as the sample has it: AS64496. The AS may be missing.
func providerOf(text string) string {
	if text == "" {
		return ""
	}
	return "AS" + strings.TrimPrefix(strings.ToUpper(text), "AS")
}

// noAgent is shown for requests without User-Agent.
const noAgent = "none"

// describe describes a refused request to operators.
func (r *Request) describe(tag func(key string) string) operator.Refused {
	text, client := describeKey(r.Key())
	return operator.Refused{
		At: r.At, Zone: r.Refusal.Zone, Limit: r.Refusal.Limit, Text: text, Client: client, Tag: tag(r.Key()),
		Reason: r.Refusal.Reason, Retry: max(operator.SecondsOf(r.Refusal.Retry), 0), Path: r.Path, Agent: r.Agent,
	}
}

// describeKey returns a key for people, and as in commands, which is "" for an address.
func describeKey(key string) (text, client string) {
	text = identity.MaskedText([]byte(key))
	return text, ClientOf(key, text)
}

// ClientOf returns the client of a key with a text as in commands, or "" if it has no name but an address. A text keeps
// its kind in front though an address in it is masked: else it may read as an address, such as 0.0.0.0/0.
func ClientOf(key, text string) string {
	switch {
	case text == "":
	case key[0] == identity.TagText:
		return operator.Target{Kind: operator.KeyText, Value: text}.String()
	case key[0] == identity.TagAPIKey:
		return operator.Target{Kind: operator.APIKey, Value: text}.String()
	case key[0] == identity.TagSession:
		return operator.Target{Kind: operator.Session, Value: strings.TrimPrefix(text, "session ")}.String()
	}
	return ""
}

// sample holds the latest requests. The zero value is empty.
type sample struct {
	ring []*Request // at most maxSampled
	next int        // index of the next request once the ring is full
}

func (s *sample) add(r *Request) {
	if len(s.ring) < maxSampled {
		s.ring = append(s.ring, r)
		return
	}
	s.ring[s.next] = r
	s.next = (s.next + 1) % maxSampled
}

// since returns the requests since begin, the newest first.
func (s *sample) since(begin time.Time) (list []Request) {
	for i := range s.ring {
		r := s.ring[(s.next-1-i+2*len(s.ring))%len(s.ring)]
		if r.At.Before(begin) {
			break
		}
		if !r.refused || r.Refusal != nil {
			list = append(list, *r)
		}
	}
	return list
}

// Describe describes the requests of a sample to operators, the newest first.
func Describe(requests []Request, tag func(key string) string) operator.Refusals {
	refusals := operator.Refusals{Latest: latestOf(requests, tag)}
	for _, r := range requests {
		if r.Refusal != nil {
			refusals.Sampled++
		} else {
			refusals.LetIn++
		}
	}
	refusals.Paths = SharesOf(requests, func(r *Request) string { return r.Path })
	refusals.Agents = SharesOf(requests, func(r *Request) string { return cmp.Or(r.Agent, noAgent) })
	refusals.Networks = SharesOf(requests, func(r *Request) string { return r.Network })
	refusals.Countries = SharesOf(requests, func(r *Request) string { return r.Country })
	refusals.Providers = SharesOf(requests, func(r *Request) string { return r.ASN })
	refusals.Clients = SharesOf(requests, (*Request).Key)
	for i := range refusals.Clients {
		c := &refusals.Clients[i]
		c.Tag = tag(c.Text)
		c.Text, c.Client = describeKey(c.Text)
	}
	return refusals
}

// latestOf describes the refused requests. It merges a client's refusals by one limit.
func latestOf(requests []Request, tag func(key string) string) []operator.Refused {
	latest, places := []operator.Refused{}, make(map[[3]string]int)
	for i := range requests {
		r := &requests[i]
		if r.Refusal == nil {
			continue
		}
		what := [...]string{r.Refusal.Zone, r.Refusal.Limit, r.Key()}
		at, ok := places[what]
		if !ok {
			if at = len(latest); at == maxLatest {
				break
			}
			places[what] = at
			latest = append(latest, r.describe(tag))
		}
		latest[at].Times++
	}
	return latest
}

// SharesOf returns the most common texts of a sample, those refused most first, without "".
func SharesOf(requests []Request, text func(*Request) string) []operator.RefusedShare {
	places, shares := make(map[string]int), []operator.RefusedShare{}
	for i := range requests {
		t := text(&requests[i])
		if t == "" {
			continue
		}
		at, ok := places[t]
		if !ok {
			at = len(shares)
			places[t] = at
			shares = append(shares, operator.RefusedShare{Text: t})
		}
		if requests[i].Refusal != nil {
			shares[at].Refused++
		} else {
			shares[at].LetIn++
		}
	}
	slices.SortStableFunc(shares, func(a, b operator.RefusedShare) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.LetIn, a.LetIn))
	})
	return shares[:min(len(shares), maxShares)]
}

// PathClass returns the first segments of a path. It replaces segments that look like an id, a name
// or a token by *, because they would identify people and make every path unique.
func PathClass(path string) string {
	var class strings.Builder
	for range maxClassified {
		var segment string
		segment, path, _ = strings.Cut(strings.TrimLeft(path, "/"), "/")
		if segment == "" {
			break
		}
		class.WriteByte('/')
		class.WriteString(segmentClass(segment))
	}
	if strings.Trim(path, "/") != "" {
		class.WriteString("/…")
	}
	return cmp.Or(class.String(), "/")
}

// segmentClass returns a segment of a path, or * for one that is long, is a number, has more than three
// digits, or has characters that are unusual in names of pages and folders.
func segmentClass(segment string) string {
	digits := 0
	for _, c := range []byte(segment) {
		isDigit, isLetter := '0' <= c && c <= '9', 'a' <= c|0x20 && c|0x20 <= 'z'
		if isDigit {
			digits++
		}
		if !isDigit && !isLetter && !strings.ContainsRune("-._~", rune(c)) {
			return "*"
		}
	}
	if len(segment) > maxSegment || digits > 3 || digits == len(segment) {
		return "*"
	}
	return segment
}

// Bounds of the class of a path.
const (
	maxClassified = 3  // segments
	maxSegment    = 24 // bytes; a longer one counts as an id
)
