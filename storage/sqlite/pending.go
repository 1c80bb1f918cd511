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
	looked  int      // places before this one are indexed
	heads   []int32  // by hash: the place of the last record, plus 1; the length is a power of two
	before  []int32  // by place: the place of the previous record in the chain, plus 1
	hashes  []uint32 // by place: of limit and key
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

// catchUp indexes the records that were added since the last call.
func (s *segmentIndex) catchUp() error {
	n := s.segment.Len()
	if s.looked == n {
		return nil
	}
	_, err := s.segment.Read(s.looked, n,
		func(place int, r *journal.Record) { s.link(hashOfRecord(r.Limit, r.Key), place) })
	if err == nil {
		s.looked = n
	}
	return err
}

// link puts a record at the head of its chain.
func (s *segmentIndex) link(hash uint32, place int) {
	if s.places == len(s.heads) {
		s.grow()
	}
	for len(s.before) <= place {
		s.before, s.hashes = append(s.before, 0), append(s.hashes, 0)
	}
	s.hashes[place] = hash
	head := s.head(hash)
	s.before[place], *head = *head, int32(place)+1
	s.places++
}

// grow doubles the hash table. Each chain is split in two, both from the last to the first.
func (s *segmentIndex) grow() {
	chains := s.heads
	s.heads = make([]int32, max(256, 2*len(chains)))
	for _, next := range chains {
		var chain []int32
		for ; next != 0; next = s.before[next-1] {
			chain = append(chain, next-1)
		}
		for i := len(chain) - 1; i >= 0; i-- {
			place := chain[i]
			head := s.head(s.hashes[place])
			s.before[place], *head = *head, place+1
		}
	}
}

func (s *segmentIndex) head(hash uint32) *int32 { return &s.heads[hash&uint32(len(s.heads)-1)] }

func hashOfRecord(id int64, key [16]byte) uint32 {
	return uint32(binary.NativeEndian.Uint64(key[:8]) ^ uint64(id)*0x9E3779B97F4A7C15)
}

// near is the distance between places that are read together: what lies between costs less than a system call.
const near = 16

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
	hash := hashOfRecord(int64(c.id), c.key)
	for next := *x.head(hash); next != 0; next = x.before[next-1] {
		if x.hashes[next-1] == hash {
			p.places = append(p.places, next-1)
		}
	}
	slices.Sort(p.places)
	for from, to := 0, 1; from < len(p.places); from, to = to, to+1 {
		for to < len(p.places) && p.places[to]-p.places[to-1] <= near {
			to++
		}
		_, err := x.segment.Read(int(p.places[from]), int(p.places[to-1])+1, func(_ int, r *journal.Record) {
			if r.Limit == int64(c.id) && r.Key == c.key && r.Bucket != limit.CountsSlots() {
				c.state.Apply(&limit, changesOf(r))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
