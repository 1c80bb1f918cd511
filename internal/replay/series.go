package replay

import (
	"hash/maphash"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
)

// series holds the counts of a limit.
type series struct {
	*Limit
	seed maphash.Seed

	requests int64
	units    int64
	refused  int64
	clients  int64 // clients that were ever refused
	first    int64 // time of the first refusal
	unknown  map[string]int64
	reasons  map[string]int64
	statuses statuses // of refused requests
	agents   tally    // of refused requests
	demand   *demand  // nil for a ban
	peaks    peaks    // the highest peaks
	known    clients  // clients of a ban, which has no demand
	timeline timeline
	offenders
}

func newSeries(l *Limit, seed maphash.Seed) *series {
	s := &series{Limit: l, seed: seed, unknown: make(map[string]int64), reasons: make(map[string]int64),
		statuses: make(statuses), agents: make(tally)}
	if l.Counts {
		s.demand = newDemand(l.Rate)
	}
	return s
}

const (
	amountsBelow = 4 // number of amounts below the limit's own, in the table of other amounts
	amountsAbove = 6
)

// round are round numbers: 1, 2, 5, 10, 20 and so on.
var round = func() (numbers []int64) {
	for power := int64(1); power <= 1e15; power *= 10 {
		numbers = append(numbers, power, 2*power, 5*power)
	}
	return numbers
}()

// amountsAround returns an amount with its neighbors among round numbers.
func amountsAround(amount int64) []int64 {
	i, exact := slices.BinarySearch(round, amount)
	above := i
	if exact {
		above++
	}
	amounts := slices.Clone(round[max(i-amountsBelow, 0):i])
	amounts = append(amounts, amount)
	return append(amounts, round[above:min(above+amountsAbove, len(round))]...)
}

func (s *series) hash(key []byte) uint64 { return maphash.Bytes(s.seed, key) }

// all returns all clients of the limit.
func (s *series) all() *clients {
	if s.demand == nil {
		return &s.known
	}
	return &s.demand.clients
}

// count counts a request for the limit, and returns the client's peak.
func (s *series) count(c *Count, r *accesslog.Record, now int64) (peak int64) {
	s.requests++
	s.units += c.Cost
	s.timeline.at(now).Passed++ // refuse corrects this
	if c.Unknown != "" {
		s.unknown[c.Unknown]++
	}
	if s.demand == nil {
		return 0
	}
	client := s.demand.add(s.hash(c.Key), now, c.Cost)
	if isError(r.Status) {
		client.errors++
	}
	s.peaks.note(c.Key, client.peak)
	return client.peak
}

// isError reports whether a status is typical for forbidden attempts.
func isError(status int) bool {
	return status == 400 || status == 401 || status == 403 || status == 404
}

// refuse counts a limit's refusal, or a shadow limit's potential refusal.
func (s *series) refuse(key []byte, reason string, r *accesslog.Record, now int64) {
	if s.refused++; s.refused == 1 {
		s.first = now
	}
	m := s.timeline.at(now)
	m.Refused++
	if s.demand != nil {
		m.Passed = max(m.Passed-1, 0)
	}
	s.reasons[reason]++
	s.statuses.add(r.Status)
	agent := r.Value("User-Agent")
	s.agents.add(agent)
	hash := s.hash(key)
	if client := s.all().get(hash); !client.refused {
		client.refused = true
		s.clients++
	}
	offender := s.offenders.get(hash, key)
	offender.note(now, r.Status, agent)
}
