package readahead

import (
	"container/heap"
	"container/list"
	"net/netip"
	"sync"
)

// Pool bounds the memory of bodies. Who finds it full takes the place of the network that holds
// most, by which that network's oldest body is lost. So a network can't keep out others that hold
// less, however slowly it sends (decision 153).
type Pool struct {
	most    int64
	mu      sync.Mutex
	held    int64                    // guarded by mu: at most most
	holders map[netip.Prefix]*holder // guarded by mu
	ranking ranking                  // guarded by mu
}

// NewPool returns a pool for most bytes.
func NewPool(most int64) *Pool { return &Pool{most: most, holders: make(map[netip.Prefix]*holder)} }

// holder is a network with bodies in a pool. Its fields are guarded by the pool's mu.
type holder struct {
	held   int64
	bodies list.List // of *Body, oldest first
	rank   int       // its index in the ranking
}

// keep appends data to a body, which has at most most bytes. It returns false if the body is lost.
func (p *Pool) keep(b *Body, data []byte, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if need := len(b.data) + len(data); need > cap(b.data) && !b.lost {
		size := max(min(2*cap(b.data), most), need, min(step, most))
		if !p.reserveLocked(b, int64(size)) {
			return false
		}
		b.data = append(make([]byte, 0, size), b.data...)
	}
	if !b.lost {
		b.data = append(b.data, data...)
	}
	return !b.lost
}

// reserveLocked reserves size bytes for a body. It takes what is lacking from those who hold most,
// and returns false if that is the body itself.
func (p *Pool) reserveLocked(b *Body, size int64) bool {
	h := p.holders[b.network]
	if h == nil {
		h = new(holder)
		p.holders[b.network] = h
		heap.Push(&p.ranking, h)
	}
	if b.place == nil {
		b.place = h.bodies.PushBack(b)
	}
	p.changeLocked(h, size-b.held)
	b.held = size
	for p.held > p.most {
		oldest := p.ranking[0].bodies.Front().Value.(*Body)
		oldest.lost = true
		p.releaseLocked(oldest)
	}
	return !b.lost
}

func (p *Pool) changeLocked(h *holder, by int64) {
	h.held += by
	p.held += by
	heap.Fix(&p.ranking, h.rank)
}

// release ends a body's use of memory.
func (p *Pool) release(b *Body) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releaseLocked(b)
}

func (p *Pool) releaseLocked(b *Body) {
	if b.place == nil {
		return
	}
	h := p.holders[b.network]
	h.bodies.Remove(b.place)
	p.changeLocked(h, -b.held)
	b.data, b.place, b.held = nil, nil, 0
	if h.bodies.Len() == 0 {
		heap.Remove(&p.ranking, h.rank)
		delete(p.holders, b.network)
	}
}

// ranking is a heap of holders, of which the first holds most.
type ranking []*holder

func (r ranking) Len() int           { return len(r) }
func (r ranking) Less(i, j int) bool { return r[i].held > r[j].held }
func (r ranking) Swap(i, j int)      { r[i], r[j], r[i].rank, r[j].rank = r[j], r[i], j, i }
func (r *ranking) Push(h any)        { h.(*holder).rank = len(*r); *r = append(*r, h.(*holder)) }
func (r *ranking) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}
