package tally

import (
	"cmp"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// This file keeps a sample of refusals in memory, so that operators see what happened before they
// looked. At most refusalsPerSecond are added a second, and nothing of it is ever written.

// Bounds of the sample, and of what each refusal holds of what a client chooses.
const (
	maxSampled     = 2048 // refusals, less than 1 MB
	recentRefusals = 15 * time.Minute
	maxAgent       = 100 // bytes
	maxLatest      = 50  // refusals that are listed one by one
	maxShares      = 10  // of paths, and of agents
)

// sampledRefusal is a refusal in the sample.
type sampledRefusal struct {
	at          time.Time
	zone, limit string
	key         string // what was counted by, at most longKey bytes
	reason      string
	retry       time.Duration
	path, agent string
}

// describe describes the refusal to operators.
func (s sampledRefusal) describe(tag func(key string) string) operator.Refused {
	return operator.Refused{
		At: s.at, Zone: s.zone, Limit: s.limit, Text: identity.MaskedText([]byte(s.key)), Tag: tag(s.key),
		Reason: s.reason, Retry: max(operator.SecondsOf(s.retry), 0), Path: s.path, Agent: s.agent,
	}
}

// refusalSample holds the latest refusals. The zero value is empty.
type refusalSample struct {
	ring []sampledRefusal // at most maxSampled
	next int              // where the next one goes, once the ring is full
}

func (s *refusalSample) add(r sampledRefusal) {
	if len(s.ring) < maxSampled {
		s.ring = append(s.ring, r)
		return
	}
	s.ring[s.next] = r
	s.next = (s.next + 1) % maxSampled
}

// since returns the refusals from a time on, the newest first.
func (s *refusalSample) since(begin time.Time) (list []sampledRefusal) {
	for i := range s.ring {
		r := s.ring[(s.next-1-i+2*len(s.ring))%len(s.ring)]
		if r.at.Before(begin) {
			break
		}
		list = append(list, r)
	}
	return list
}

// latestOf describes refusals of a sample, those of a client by a limit as one.
func latestOf(sample []sampledRefusal, tag func(key string) string) []operator.Refused {
	latest, places := []operator.Refused{}, make(map[[3]string]int)
	for _, s := range sample {
		what := [...]string{s.zone, s.limit, s.key}
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

// sharesOf returns the most common texts of a sample.
func sharesOf(sample []sampledRefusal, text func(sampledRefusal) string) []operator.RefusedShare {
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
	return shares[:min(len(shares), maxShares)]
}
