package sqlite

import (
	"encoding/binary"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/journal"
)

// pending indexes by key the records of the journal that are not folded.
type pending struct {
	segments []*segmentIndex // in ascending order of their generations
	places   []int32         // the places of one key
}

// segmentIndex indexes the records of one segment. The records of one key form a chain, from the last to the
// first.
type segmentIndex struct {
	segment *journal.Segment
	looked  int     // places before this one are indexed, except for holes
	holes   []int32 // places that had no record yet
	heads   []int32 // by hash: the place of the last record, plus 1; the length is a power of two
	before  []int32 // by place: the place of the previous record in the chain, plus 1
	places  int
}

// follow indexes the present segments, in ascending order, and their records.
func (p *pending) follow(segments []*journal.Segment) error {
	known := p.segments
	p.segments = make([]*segmentIndex, 0, len(segments))
	for _, s := range segments {
		for len(known) > 0 && known[0].segment.Generation() < s.Generation() {
			known = known[1:]
		}
		index := &segmentIndex{segment: s}
		if len(known) > 0 && known[0].segment.Generation() == s.Generation() {
			index = known[0]
		}
		if err := index.catchUp(); err != nil {
			return err
		}
		p.segments = append(p.segments, index)
	}
	return nil
}

// catchUp indexes the records that were added since the last call. No call asks for the keys of records
// that are still being written.
func (s *segmentIndex) catchUp() error {
	var r journal.Record
	holes := s.holes[:0]
	for _, place := range s.holes {
		if ok, err := s.segment.Read(int(place), &r); err != nil {
			return err
		} else if ok {
			s.link(&r, int(place))
		} else {
			holes = append(holes, place)
		}
	}
	s.holes = holes
	for n := s.segment.Len(); s.looked < n; s.looked++ {
		if ok, err := s.segment.Read(s.looked, &r); err != nil {
			return err
		} else if ok {
			s.link(&r, s.looked)
		} else if !s.segment.Past() {
			s.holes = append(s.holes, int32(s.looked))
		}
	}
	return nil
}

// link puts a record at the head of its chain.
func (s *segmentIndex) link(r *journal.Record, place int) {
	if s.places == len(s.heads) {
		s.grow()
	}
	for len(s.before) <= place {
		s.before = append(s.before, 0)
	}
	head := &s.heads[s.hash(r.Limit, r.Key)]
	s.before[place], *head = *head, int32(place)+1
	s.places++
}

// grow doubles the hash table. Each chain is split in two, both from the last to the first.
func (s *segmentIndex) grow() {
	chains := s.heads
	s.heads = make([]int32, max(256, 2*len(chains)))
	var r journal.Record
	for _, next := range chains {
		var chain []int32
		for ; next != 0; next = s.before[next-1] {
			chain = append(chain, next-1)
		}
		for i := len(chain) - 1; i >= 0; i-- {
			place := chain[i]
			if ok, err := s.segment.Read(int(place), &r); ok && err == nil {
				head := &s.heads[s.hash(r.Limit, r.Key)]
				s.before[place], *head = *head, place+1
			}
		}
	}
}

func (s *segmentIndex) hash(id int64, key [16]byte) uint64 {
	return (binary.NativeEndian.Uint64(key[:8]) ^ uint64(id)*0x9E3779B97F4A7C15) & uint64(len(s.heads)-1)
}

// apply adds the pending records to the states of cells, which were read from a database with a progress.
func (p *pending) apply(claims []storage.Claim, cells []cell, done progress) error {
	for i := range cells {
		c := &cells[i]
		limit := claims[c.claims[0]].Limit
		for _, x := range p.segments {
			if done.has(x.segment.Generation(), c.key) {
				continue
			}
			if err := p.applySegment(x, limit, c); err != nil {
				return err
			}
		}
		c.slots = append(c.slots[:0], c.state.Slots...)
		c.bucket = c.state.Bucket
	}
	return nil
}

// applySegment applies the records of a cell in the order in which they were added: units are given back
// after they were charged, and the last of several buckets counts.
func (p *pending) applySegment(x *segmentIndex, limit limiter.Limit, c *cell) error {
	if len(x.heads) == 0 {
		return nil
	}
	p.places = p.places[:0]
	for next := x.heads[x.hash(int64(c.id), c.key)]; next != 0; next = x.before[next-1] {
		p.places = append(p.places, next-1)
	}
	slices.Sort(p.places)
	for _, place := range p.places {
		var r journal.Record
		ok, err := x.segment.Read(int(place), &r)
		if err != nil {
			return err
		}
		if ok && r.Limit == int64(c.id) && r.Key == c.key && r.Bucket != limit.CountsSlots() {
			c.state.Apply(&limit, changesOf(&r))
		}
	}
	return nil
}
