package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// claims are decided by a script, on the counts of the server.
type claims struct{ machine *machine }

// Claim implements [storage.Store].
func (c claims) Claim(ctx context.Context, term *storage.Term, list []storage.Claim, grants []limiter.Grant) error {
	return c.decide(ctx, term, call{what: "claim", writes: true}, nil, nil, list, grants)
}

// ClaimFor implements [storage.Network].
func (c claims) ClaimFor(ctx context.Context, term *storage.Term, clients []storage.Client, known []reputation.Record,
	list []storage.Claim, grants []limiter.Grant) error {
	return c.decide(ctx, term, call{what: "claim", writes: true}, clients, known, list, grants)
}

// Probe implements [storage.Store].
func (c claims) Probe(ctx context.Context, term *storage.Term, list []storage.Claim, grants []limiter.Grant) error {
	return c.decide(ctx, term, call{what: "probe"}, nil, nil, list, grants)
}

// MaxBatch implements [storage.Network]. A batch of this size takes the server about as long as a round
// trip in a data center.
func (c claims) MaxBatch() int { return 128 }

// decide makes the server decide about claims, and reads the records of clients.
func (c claims) decide(ctx context.Context, term *storage.Term, as call, clients []storage.Client,
	known []reputation.Record, list []storage.Claim, grants []limiter.Grant) error {
	if err := storage.CheckClaims(list, grants); err != nil {
		return fmt.Errorf("redis: %s: %w", as.what, err)
	}
	if err := storage.CheckRecords(len(clients), known); err != nil {
		return fmt.Errorf("redis: %s: %w", as.what, err)
	}
	names := c.machine.server.names
	as.script = claimScript
	as.writes = as.writes && len(list) > 0
	b := batch{names: names, claims: list, probe: !as.writes}
	read := newReading(names, clients)
	as.request = func(now int64) request {
		q := b.request(now, len(read.keys))
		q.keys = append(q.keys, read.keys...)
		return q
	}
	r, err := c.machine.inTerm(ctx, term, as)
	if err != nil {
		return err
	}
	if err := b.answer(r, grants); err != nil {
		return fmt.Errorf("redis: %s: %w", as.what, err)
	}
	if len(clients) == 0 {
		return nil
	}
	if r.skipped {
		return records(c).Records(ctx, term, clients, known)
	}
	return records(c).take(ctx, term, read, r, known)
}

// batch is claims on their way to the server.
type batch struct {
	names  names
	claims []storage.Claim
	probe  bool

	keys   []string
	index  map[name]int64 // the numbers of keys, from 1, that are in no group
	limits []counting
	groups []group
	order  []int // the claims, in the order in which they are sent
	text   []byte
}

// name names the counts of a key of a limit.
type name struct {
	id  storage.LimitID
	key storage.Key
}

// counting has the parameters of claims that count slots. Most claims of a batch share them.
type counting struct {
	limiter.Limit
	share int64
}

// group is claims that are alike. Each is the only one of its key in the batch. They are sent once, and
// decided once for all new keys.
type group struct {
	counting
	claim   limiter.Claim
	members []int
}

// request returns the batch as of a time. records is how many records of clients follow its keys.
func (b *batch) request(now int64, records int) request {
	b.keys, b.index = make([]string, 0, len(b.claims)), make(map[name]int64)
	b.limits, b.groups, b.order = b.limits[:0], b.groups[:0], b.order[:0]
	b.text = slices.Grow(b.text[:0], 32*len(b.claims)+128)
	times := b.times()
	for i := range b.claims {
		c := b.claims[i]
		c.Now = now
		if !b.isAlone(&c, times) {
			b.order = append(b.order, i)
			b.add(&c, b.keysOf(&c)...)
		} else {
			b.join(i, &c)
		}
	}
	return request{keys: b.keys, args: b.args(now, records), from: b.sameSince(now)}
}

// times returns how often each key is named.
func (b *batch) times() map[name]int {
	times := make(map[name]int, len(b.claims))
	for i := range b.claims {
		c := &b.claims[i]
		times[name{c.ID, c.Key}]++
		if c.IsRenamed() {
			times[name{c.ID, c.Former}]++
		}
	}
	return times
}

// isAlone reports whether a claim only wants units, of a key that no other claim names.
func (b *batch) isAlone(c *storage.Claim, times map[name]int) bool {
	return !c.IsRenamed() && !c.Return.Holds() && c.Return.Spent <= 0 && c.Charge.Units <= 0 &&
		times[name{c.ID, c.Key}] == 1
}

// join adds a claim to its group.
func (b *batch) join(i int, c *storage.Claim) {
	like := group{counting: counting{c.Limit, c.ExtraShare()}, claim: c.Claim}
	like.claim.Return, like.claim.Charge = limiter.Lease{}, limiter.Charge{}
	for g := range b.groups {
		if b.groups[g].counting == like.counting && b.groups[g].claim == like.claim {
			b.groups[g].members = append(b.groups[g].members, i)
			return
		}
	}
	like.members = []int{i}
	b.groups = append(b.groups, like)
}

// keysOf returns the numbers of a claim's key and of its former name, which is 0 if there is none.
func (b *batch) keysOf(c *storage.Claim) []int64 {
	if !c.IsRenamed() {
		return []int64{b.key(c.ID, c.Key), 0}
	}
	return []int64{b.key(c.ID, c.Key), b.key(c.ID, c.Former)}
}

// args returns the arguments of the script, and adds the keys of groups.
func (b *batch) args(now int64, records int) []string {
	args := []string{"", strconv.FormatInt(bit(b.probe), 10), strconv.Itoa(records)}
	for i := range b.groups {
		g := &b.groups[i]
		for _, i := range g.members {
			b.keys = append(b.keys, b.names.count(b.claims[i].ID, b.claims[i].Key))
		}
		b.order = append(b.order, g.members...)
		args = append(args, strconv.Itoa(len(g.members)), b.claimOf(g, now))
	}
	args[0] = string(b.text)
	return args
}

// claimOf returns the claim of a group for the script.
func (b *batch) claimOf(g *group, now int64) string {
	c := b.claims[g.members[0]]
	c.Now = now
	if c.Limit.CountsSlots() {
		b.limit(&c) // is sent with the others
	}
	begins := len(b.text)
	b.add(&c)
	claim := string(b.text[begins:])
	b.text = b.text[:begins]
	return claim
}

// sameSince returns the earliest time at which the claims would be the same as now.
func (b *batch) sameSince(now int64) int64 {
	for i := range b.claims {
		l := &b.claims[i].Limit
		if l.CountsSlots() && (l.Slot(now-waited) != l.Slot(now) || l.Oldest(now-waited) != l.Oldest(now)) {
			return now
		}
	}
	return now - waited
}

// key returns the number of a key in the batch.
func (b *batch) key(id storage.LimitID, key storage.Key) int64 {
	owner := name{id, key}
	n, known := b.index[owner]
	if !known {
		b.keys = append(b.keys, b.names.count(id, key))
		n = int64(len(b.keys))
		b.index[owner] = n
	}
	return n
}

// add adds a claim, in the order in which claim.lua reads it. keys are the numbers of its keys, unless they
// are those of a group.
func (b *batch) add(c *storage.Claim, keys ...int64) {
	if c.Limit.CountsSlots() {
		b.addSlots(c, keys)
	} else {
		b.addBucket(c, keys)
	}
}

// op begins an operation, which claim.lua reads as a whole.
func (b *batch) op(kind byte, list ...int64) {
	b.text = append(b.text, kind, ' ')
	b.numbers(list...)
}

func (b *batch) numbers(list ...int64) {
	for _, n := range list {
		b.text = append(strconv.AppendInt(b.text, n, 10), ' ')
	}
}

// exact is the largest number of units or slots in a call. A double holds it exactly, and limits are
// smaller.
const exact = int64(1) << 46

func (b *batch) addSlots(c *storage.Claim, keys []int64) {
	l := &c.Limit
	number, ahead := b.limit(c), max(min(c.Ahead, l.MaxAhead()), 0)
	if c.Spread {
		ahead = min(ahead, limiter.MaxSpan)
	}
	if back := &c.Return; back.Units > 0 || back.Spent > 0 {
		b.op('r', index(back.At), units(back.Units), units(back.Spent), min(max(back.Span, 0), limiter.MaxSpan),
			units(back.Lapsed))
	}
	if c.Charge.Units > 0 {
		b.op('c', index(c.Charge.At), units(c.Charge.Units), bit(c.Charge.Floor))
	}
	b.op('s', keys...)
	b.numbers(number)
	b.asks(c)
	b.numbers(ahead, bit(c.Spread))
}

// limit returns the number of a claim's limit in the batch.
func (b *batch) limit(c *storage.Claim) int64 {
	params := counting{c.Limit, c.ExtraShare()}
	for i := range slices.Backward(b.limits) {
		if b.limits[i] == params {
			return int64(i + 1)
		}
	}
	b.limits = append(b.limits, params)
	l, slot := &c.Limit, c.Limit.Slot(c.Now)
	b.op('l', l.Amount(), slot, l.Oldest(c.Now), l.Newest(c.Now), l.Slots(), l.LateSlots(), params.share)
	b.numbers(ceilMilli(l.Expiry(slot)), ceilMilli(l.Ends(slot+1)-l.Ends(slot)))
	return int64(len(b.limits))
}

// asks adds the units that a claim wants.
func (b *batch) asks(c *storage.Claim) {
	most := c.Limit.Capacity() + 1 // more makes no difference
	b.numbers(min(max(c.Min, -1), most), min(max(c.Want, -1), most), units(c.Extra))
}

// index returns the index of a slot for the script. Slots out of its range never count.
func index(slot int64) int64 { return min(max(slot, -1<<52), 1<<52) }

func units(n int64) int64 { return min(max(n, 0), exact) }

func ceilMilli(nanos int64) int64 { return nanos/1e6 + 1 }

func (b *batch) addBucket(c *storage.Claim, keys []int64) {
	l := &c.Limit
	b.op('b', keys...)
	b.numbers(l.Capacity(), l.Amount())
	b.limbs(int64(l.Window()))
	b.time(max(int64(limiter.MaxSkew), int64(l.Window()), int64(l.Refill(l.Capacity()))))
	b.numbers(min(max(c.Lasts, 0), l.MaxLasts()), l.MaxLasts())
	b.asks(c)
	b.numbers(c.ExtraShare(), units(c.Charge.Units), bit(c.Charge.Floor))
	back := c.Return
	b.numbers(bit(back.Holds()))
	if !back.Holds() {
		return
	}
	b.time(back.At)
	b.numbers(units(back.Units))
	b.limbs(back.HeldPart)
	b.numbers(units(back.Spent))
	b.limbs(back.SpentPart)
}

// limbs adds a number in three limbs of 24 bits, the lowest first.
func (b *batch) limbs(n int64) {
	n = max(n, 0)
	b.numbers(n&0xffffff, n>>24&0xffffff, n>>48)
}

// time adds nanoseconds as seconds and a remainder.
func (b *batch) time(nanos int64) {
	seconds := nanos / 1e9
	if nanos%1e9 < 0 {
		seconds--
	}
	b.numbers(seconds, nanos-seconds*1e9)
}

// answer computes the grants from the server's answer, which has the state on which each claim was
// decided.
func (b *batch) answer(r reply, grants []limiter.Grant) error {
	numbers := words{text: r.answer}
	for _, i := range b.order {
		c := &b.claims[i]
		c.Now = r.asof
		if c.Limit.CountsSlots() {
			grants[i] = grantOfSlots(c, numbers.next(), numbers.next())
		} else {
			grants[i] = grantOfBucket(c, numbers.next(), numbers.next(), numbers.next(),
				numbers.next()|numbers.next()<<24|numbers.next()<<48)
		}
	}
	return numbers.err
}

// grantOfSlots returns the grant of a claim. used is the number of units in use after the claim has
// given back and charged units. If the claim is refused, slot is the one whose end frees enough units.
func grantOfSlots(c *storage.Claim, used, slot int64) limiter.Grant {
	rest := c.Claim
	rest.Return, rest.Charge = limiter.Lease{}, limiter.Charge{}
	slot = min(max(slot, c.Limit.Oldest(c.Now)), c.Limit.Newest(c.Now))
	state := limiter.State{Slots: []limiter.Slot{{Index: slot, Used: used}}}
	return c.Limit.Claim(&state, rest)
}

// grantOfBucket returns the grant of a claim from a bucket. The numbers are the bucket's state after the
// claim has given back and charged units.
func grantOfBucket(c *storage.Claim, seconds, nanos, units, part int64) limiter.Grant {
	rest := c.Claim
	rest.Return.Units, rest.Return.HeldPart, rest.Charge = 0, 0, limiter.Charge{}
	state := limiter.State{Bucket: limiter.Bucket{At: seconds*1e9 + nanos, Units: units, Part: part}}
	return c.Limit.Claim(&state, rest)
}

// words reads numbers that are separated by spaces.
type words struct {
	text string
	err  error
}

func (w *words) next() int64 {
	end := 0
	for end < len(w.text) && w.text[end] != ' ' {
		end++
	}
	n, err := strconv.ParseInt(w.text[:end], 10, 64)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("the server's answer can't be read: %w", err)
	}
	w.text = w.text[min(end+1, len(w.text)):]
	return n
}
