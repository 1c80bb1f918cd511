package gate

import (
	"container/heap"
	"slices"
)

// crowd is requests that wait, in one line or in all, by parties. The first of largest is one
// that has the most.
type crowd struct {
	n       int
	parties map[any]*party
	largest []*party // a heap
}

// party is the waiting requests of one party, at least one.
type party struct {
	waiting []*waiter // in order of arrival
	place   int       // in the heap
}

// waiter is a request that waits in a line.
type waiter struct {
	whose any
	line  *line
	turn  chan error // gets nil when it is the request's turn, and [ErrFull] if it has to go; has room for that
}

// add adds a request. It returns its party, and whether that is new.
func (c *crowd) add(w *waiter) (p *party, isNew bool) {
	if p = c.parties[w.whose]; p == nil {
		if c.parties == nil {
			c.parties = make(map[any]*party)
		}
		p, isNew = new(party), true
		c.parties[w.whose] = p
		heap.Push(c, p)
	}
	c.n++
	p.waiting = append(p.waiting, w)
	heap.Fix(c, p.place)
	return p, isNew
}

// remove removes a request, and returns its party if there is nobody left in it.
func (c *crowd) remove(w *waiter) (gone *party) {
	p := c.parties[w.whose]
	i := slices.Index(p.waiting, w)
	p.waiting = slices.Delete(p.waiting, i, i+1)
	c.n--
	heap.Fix(c, p.place)
	if len(p.waiting) > 0 {
		return nil
	}
	heap.Remove(c, p.place)
	delete(c.parties, w.whose)
	return p
}

// room returns whether a request of a party may wait where so many do at most, and who has to go
// instead if there is no room: the last of the party that would have the most with this one.
func (c *crowd) room(whose any, most int) (instead *waiter, ok bool) {
	if c.n < most || c.n == 0 {
		return nil, c.n < most
	}
	own := 1
	if p := c.parties[whose]; p != nil {
		own += len(p.waiting)
	}
	last := len(c.largest[0].waiting) - 1
	return c.largest[0].waiting[last], last+1 > own
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (c *crowd) Len() int           { return len(c.largest) }
func (c *crowd) Less(i, j int) bool { return len(c.largest[i].waiting) > len(c.largest[j].waiting) }
func (c *crowd) Swap(i, j int) {
	c.largest[i], c.largest[j] = c.largest[j], c.largest[i]
	c.largest[i].place, c.largest[j].place = i, j
}
func (c *crowd) Push(p any) {
	p.(*party).place = len(c.largest)
	c.largest = append(c.largest, p.(*party))
}
func (c *crowd) Pop() any {
	last := len(c.largest) - 1
	p := c.largest[last]
	c.largest[last] = nil
	c.largest = c.largest[:last]
	return p
}
