package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// This file keeps a sample of refusals in memory, so that operators see refusals from before they
// looked. It adds at most refusalsPerSecond a second, and writes nothing to disk.

// Bounds of the sample, and of a client's values in it.
const (
	maxSampled     = 2048 // refusals, less than 1 MB
	recentRefusals = 15 * time.Minute
	maxAgent       = 100 // bytes
	maxHost        = 255 // bytes
	maxLatest      = 50  // refusals in the list
	maxShares      = 10  // of paths, and of agents
)

// Refusal is a refusal in the sample.
type Refusal struct {
	At          time.Time // set by Refused
	Zone, Limit string
	Key         string        // the key, at most 128 bytes
	Reason      string        // as in metrics
	Retry       time.Duration // how long to wait, or limiter.Never
	Path, Agent string        // of the request; in the sample, the path's class, and the agent shortened
	Host        string        // of the request
}

// describe describes the refusal to operators.
func (s Refusal) describe(tag func(key string) string) operator.Refused {
	refused := operator.Refused{
		At: s.At, Zone: s.Zone, Limit: s.Limit, Text: identity.MaskedText([]byte(s.Key)), Tag: tag(s.Key),
		Reason: s.Reason, Retry: max(operator.SecondsOf(s.Retry), 0), Path: s.Path, Agent: s.Agent,
	}
	if refused.Text != "" && s.Key[0] == identity.TagText { // it may look like an address
		refused.Client = operator.Target{Kind: operator.KeyText, Value: refused.Text}.String()
	}
	return refused
}

// sample holds the latest refusals. The zero value is empty.
type sample struct {
	ring []Refusal // at most maxSampled
	next int       // index of the next refusal once the ring is full
}

func (s *sample) add(r Refusal) {
	if len(s.ring) < maxSampled {
		s.ring = append(s.ring, r)
		return
	}
	s.ring[s.next] = r
	s.next = (s.next + 1) % maxSampled
}

// since returns the refusals since begin, the newest first.
func (s *sample) since(begin time.Time) (list []Refusal) {
	for i := range s.ring {
		r := s.ring[(s.next-1-i+2*len(s.ring))%len(s.ring)]
		if r.At.Before(begin) {
			break
		}
		list = append(list, r)
	}
	return list
}

// LatestOf describes the refusals of a sample. It merges a client's refusals by one limit.
func LatestOf(refusals []Refusal, tag func(key string) string) []operator.Refused {
	latest, places := []operator.Refused{}, make(map[[3]string]int)
	for _, s := range refusals {
		what := [...]string{s.Zone, s.Limit, s.Key}
		at, ok := places[what]
		if !ok {
			if at = len(latest); at == maxLatest {
				break
			}
			places[what] = at
			latest = append(latest, s.describe(tag))
		}
		latest[at].Times++
	}
	return latest
}

// SharesOf returns the most common texts of a sample.
func SharesOf(refusals []Refusal, text func(Refusal) string) []operator.RefusedShare {
	places, shares := make(map[string]int), []operator.RefusedShare{}
	for _, s := range refusals {
		at, ok := places[text(s)]
		if !ok {
			at = len(shares)
			places[text(s)] = at
			shares = append(shares, operator.RefusedShare{Text: text(s)})
		}
		shares[at].Refused++
	}
	slices.SortStableFunc(shares, func(a, b operator.RefusedShare) int { return cmp.Compare(b.Refused, a.Refused) })
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
