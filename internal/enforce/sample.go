package enforce

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// This file keeps a sample of refusals in memory, so that operators see refusals from before they
// looked. It adds at most RefusalsPerSecond a second, and writes nothing to disk.

// Bounds of the sample, and of a client's values in it.
const (
	MaxSampled     = 2048 // refusals, less than 1 MB
	RecentRefusals = 15 * time.Minute
	MaxAgent       = 100 // bytes
	MaxLatest      = 50  // refusals in the list
	MaxShares      = 10  // of paths, and of agents
)

// SampledRefusal is a refusal in the sample.
type SampledRefusal struct {
	At          time.Time
	Zone, limit string
	Key         string // the key, at most LongKey bytes
	reason      string
	retry       time.Duration
	Path, Agent string
}

// describe describes the refusal to operators.
func (s SampledRefusal) describe(tag func(key string) string) operator.Refused {
	told := operator.Refused{
		At: s.At, Zone: s.Zone, Limit: s.limit, Text: identity.MaskedText([]byte(s.Key)), Tag: tag(s.Key),
		Reason: s.reason, Retry: max(operator.SecondsOf(s.retry), 0), Path: s.Path, Agent: s.Agent,
	}
	if told.Text != "" && s.Key[0] == identity.TagText { // it may look like an address
		told.Client = operator.Target{Kind: operator.KeyText, Value: told.Text}.String()
	}
	return told
}

// refusalSample holds the latest refusals. The zero value is empty.
type refusalSample struct {
	Ring []SampledRefusal // at most MaxSampled
	next int              // index of the next refusal once the ring is full
}

func (s *refusalSample) add(r SampledRefusal) {
	if len(s.Ring) < MaxSampled {
		s.Ring = append(s.Ring, r)
		return
	}
	s.Ring[s.next] = r
	s.next = (s.next + 1) % MaxSampled
}

// since returns the refusals since begin, the newest first.
func (s *refusalSample) since(begin time.Time) (list []SampledRefusal) {
	for i := range s.Ring {
		r := s.Ring[(s.next-1-i+2*len(s.Ring))%len(s.Ring)]
		if r.At.Before(begin) {
			break
		}
		list = append(list, r)
	}
	return list
}

// LatestOf describes the refusals of a sample. It merges a client's refusals by one limit.
func LatestOf(sample []SampledRefusal, tag func(key string) string) []operator.Refused {
	latest, places := []operator.Refused{}, make(map[[3]string]int)
	for _, s := range sample {
		what := [...]string{s.Zone, s.limit, s.Key}
		at, ok := places[what]
		if !ok {
			if at = len(latest); at == MaxLatest {
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
func SharesOf(sample []SampledRefusal, text func(SampledRefusal) string) []operator.RefusedShare {
	places, shares := make(map[string]int), []operator.RefusedShare{}
	for _, s := range sample {
		at, ok := places[text(s)]
		if !ok {
			at = len(shares)
			places[text(s)] = at
			shares = append(shares, operator.RefusedShare{Text: text(s)})
		}
		shares[at].Refused++
	}
	slices.SortStableFunc(shares, func(a, b operator.RefusedShare) int { return cmp.Compare(b.Refused, a.Refused) })
	return shares[:min(len(shares), MaxShares)]
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

// segmentClass returns a segment of a path, or * for one that is long, has more than three digits,
// or has characters that are unusual in names of pages and folders.
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
	if len(segment) > maxSegment || digits > 3 {
		return "*"
	}
	return segment
}

// Bounds of the class of a path.
const (
	maxClassified = 3  // segments
	maxSegment    = 24 // bytes; a longer one counts as an id
)
