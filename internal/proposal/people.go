package proposal

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/netip"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/replayer"
)

// people are the clients of a log that decide about a proposal. Strangers write the log, so numbers, paths and
// programs come from what more than few of a site's people do, counted as addresses and as networks of two
// sizes (decision 166). What fewer do is a note.
type people struct {
	ids     map[netip.Addr]int // the first address of an IPv6 /64 is a client
	known   []person
	groups  map[netip.Prefix]int
	posters bool // as people, because hardly anybody else comes
}

// person is a client of a log.
type person struct {
	requests, failed, posts int64
	crawls                  bool // as one of a crowd
	groups                  groups
}

// groups are what a client is counted as: itself, its network, and the larger network around it.
type groups [3]int

var prefixes = [2]struct{ v4, v6 int }{{24, 48}, {16, 32}}

// crowd is the number of different groups of some clients.
type crowd groups

// few returns how many of n may be strangers who want to change a proposal: one in a hundred, or up to ten of
// less than a thousand, but at most one in five.
func few(n int) int { return max(n/100, min(10, n/5)) }

// isFew reports whether a crowd is too small a part of another to decide anything.
func (c crowd) isFew(all crowd) bool {
	for i, n := range c {
		if n <= few(all[i]) {
			return true
		}
	}
	return false
}

// readPeople reads a log for its people.
func readPeople(ctx context.Context, log *accesslog.Merger) (*people, error) {
	p := &people{ids: make(map[netip.Addr]int), groups: make(map[netip.Prefix]int)}
	err := eachRecord(ctx, log, func(r *accesslog.Record) {
		if isCrawled(r) {
			return
		}
		c := &p.known[p.id(r)]
		c.requests++
		if r.Status == 400 || r.Status == 401 || r.Status == 403 || r.Status == 404 {
			c.failed++
		}
		if r.Method == http.MethodPost {
			c.posts++
		}
	})
	var both [2]crowd // without posters, and with them
	for i := range both {
		p.posters = i == 1
		both[i] = p.crowd(func(yield func(int) bool) {
			for id := range p.known {
				if p.is(id) {
					yield(id)
				}
			}
		})
	}
	p.posters = both[0].isFew(both[1])
	return p, err
}

// eachRecord calls f for each request of a log, and closes it.
func eachRecord(ctx context.Context, log *accesslog.Merger, f func(*accesslog.Record)) error {
	defer log.Close()
	for {
		r, err := log.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		f(r)
	}
}

// is reports whether a client is one of the people: it wasn't mostly answered with an error, as those who look
// for something, doesn't hardly ever get a page, as those who guess passwords, and isn't of a crowd.
func (p *people) is(id int) bool {
	c := p.known[id]
	return !c.crawls && 2*c.failed <= c.requests && (p.posters || 10*c.posts <= 9*c.requests)
}

// of returns the client of a request, and whether it is one of the people.
func (p *people) of(r *accesslog.Record) (id int, ok bool) {
	if isCrawled(r) {
		return 0, false
	}
	id = p.id(r)
	return id, p.is(id)
}

// id returns the client of a request.
func (p *people) id(r *accesslog.Record) int {
	addr, err := netip.ParseAddr(replayer.Address(r.ClientIP))
	if addr = addr.Unmap().WithZone(""); err == nil && addr.Is6() {
		network, _ := addr.Prefix(64)
		addr = network.Addr()
	}
	id, ok := p.ids[addr]
	if !ok {
		id = len(p.known)
		p.ids[addr] = id
		c := person{groups: groups{id}}
		for i, bits := range prefixes {
			c.groups[i+1] = p.group(addr, bits.v4, bits.v6)
		}
		p.known = append(p.known, c)
	}
	return id
}

// group returns the number of a client's network. Nobody else gets an address that isn't of the internet, so
// each of them is a network of its own.
func (p *people) group(addr netip.Addr, v4, v6 int) int {
	bits := addr.BitLen()
	if addr.IsGlobalUnicast() && !addr.IsPrivate() {
		if bits = v6; addr.Is4() {
			bits = v4
		}
	}
	prefix, _ := addr.Prefix(bits)
	if _, ok := p.groups[prefix]; !ok {
		p.groups[prefix] = len(p.groups)
	}
	return p.groups[prefix]
}

// crowd counts clients.
func (p *people) crowd(ids iter.Seq[int]) (c crowd) {
	for i := range c {
		seen := make(map[int]bool)
		for id := range ids {
			seen[p.known[id].groups[i]] = true
		}
		c[i] = len(seen)
	}
	return c
}
