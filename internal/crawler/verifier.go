package crawler

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Resolver is the part of [net.Resolver] that a [Verifier] uses.
type Resolver interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DNS is the resolver of Caddy's matchers. Tests replace it before they start a Caddy.
var DNS Resolver = net.DefaultResolver

// How long results hold. A confirmed address is looked up again when half of its time is over, and
// stays confirmed meanwhile.
const (
	confirmedFor = 24 * time.Hour
	deniedFor    = time.Hour
	failedFor    = time.Minute // when DNS gave no answer
)

// The bounds of a verifier.
const (
	maxConfirmed  = 8192
	maxDenied     = 16384
	maxLookups    = 16              // at once
	lookupsPerSec = 10              // on average, of strangers, and as many of neighbors
	maxBurst      = 50              // look-ups in an instant
	maxNames      = 3               // of one address
	lookupTimeout = 5 * time.Second // of one address, with all its names
)

// claim is the claim of an address to be an operator's.
type claim struct {
	operator *Operator
	addr     netip.Addr
}

// neighborhood is the claim of the whole network of an address.
func (c claim) neighborhood() claim {
	bits := 24
	if c.addr.Is6() {
		bits = 48
	}
	network, _ := c.addr.Prefix(bits)
	return claim{c.operator, network.Addr()}
}

// Verifier confirms claims by DNS. It may be used from any number of goroutines.
type Verifier struct {
	resolver Resolver
	now      func() time.Time
	ctx      context.Context // ends the look-ups
	stop     context.CancelFunc
	lookups  sync.WaitGroup

	mu        sync.Mutex // guards all below
	closed    bool
	confirmed map[claim]time.Time // by the end of their time
	denied    map[claim]time.Time
	neighbors map[claim]time.Time // neighborhoods of confirmed addresses
	pending   map[claim]bool      // being looked up
	strangers budget
	known     budget // for neighborhoods, so that strangers can't keep operators out
}

// NewVerifier returns a verifier that asks a resolver, with a clock.
func NewVerifier(resolver Resolver, now func() time.Time) *Verifier {
	v := &Verifier{
		resolver: resolver, now: now, confirmed: make(map[claim]time.Time), denied: make(map[claim]time.Time),
		neighbors: make(map[claim]time.Time), pending: make(map[claim]bool),
	}
	v.ctx, v.stop = context.WithCancel(context.Background())
	return v
}

// Destruct ends all look-ups, and waits for that.
func (v *Verifier) Destruct() error {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.stop()
	v.lookups.Wait()
	return nil
}

// IsConfirmed reports whether an address is confirmed to be an operator's. If that isn't known, it
// is false, and the address is looked up if mayAsk is set and the bounds permit.
func (v *Verifier) IsConfirmed(o *Operator, addr netip.Addr, mayAsk bool) bool {
	addr = addr.Unmap().WithZone("")
	if !o.HasNames() || !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	c, now := claim{o, addr}, v.now()
	until, confirmed := v.confirmed[c]
	confirmed = confirmed && now.Before(until)
	if confirmed && until.Sub(now) > confirmedFor/2 || now.Before(v.denied[c]) {
		return confirmed
	}
	if mayAsk && v.mayLookUpLocked(c, now) {
		v.pending[c] = true
		v.lookups.Go(func() { v.lookUp(c) })
	}
	return confirmed
}

// mayLookUpLocked reports whether the bounds permit another look-up, and takes it from the budget.
func (v *Verifier) mayLookUpLocked(c claim, now time.Time) bool {
	from, most := &v.strangers, maxLookups/2
	if now.Before(v.neighbors[c.neighborhood()]) {
		from, most = &v.known, maxLookups
	}
	return !v.closed && !v.pending[c] && len(v.pending) < most && from.take(now)
}

// budget is a token bucket of look-ups.
type budget struct {
	full time.Time // when it is full again
}

func (b *budget) take(now time.Time) bool {
	const each = time.Second / lookupsPerSec
	if b.full.Before(now) {
		b.full = now
	}
	if b.full.Sub(now) > (maxBurst-1)*each {
		return false
	}
	b.full = b.full.Add(each)
	return true
}

// lookUp looks up an address, and keeps the result.
func (v *Verifier) lookUp(c claim) {
	ctx, cancel := context.WithTimeout(v.ctx, lookupTimeout)
	defer cancel()
	confirmed, err := v.confirm(ctx, c)
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.pending, c)
	now := v.now()
	switch {
	case confirmed:
		delete(v.denied, c)
		end := now.Add(confirmedFor)
		keepLocked(v.confirmed, maxConfirmed, c, end, now)
		keepLocked(v.neighbors, maxConfirmed, c.neighborhood(), end, now)
	case err != nil: // a confirmed address stays so until its time is over
		v.denyLocked(c, now.Add(failedFor))
	default:
		delete(v.confirmed, c)
		v.denyLocked(c, now.Add(deniedFor))
	}
}

// confirm reports whether an address has a name of the operator that has the address. The error is
// not nil if DNS doesn't say.
func (v *Verifier) confirm(ctx context.Context, c claim) (bool, error) {
	names, err := v.resolver.LookupAddr(ctx, c.addr.String())
	names = slices.DeleteFunc(names, func(name string) bool { return !c.operator.has(name) })
	if len(names) == 0 {
		return false, unlessNotFound(err)
	}
	for _, name := range names[:min(len(names), maxNames)] {
		addrs, errForward := v.resolver.LookupNetIP(ctx, "ip", name)
		if slices.ContainsFunc(addrs, func(addr netip.Addr) bool { return addr.Unmap() == c.addr }) {
			return true, nil
		}
		err = errors.Join(err, unlessNotFound(errForward))
	}
	return false, err
}

// unlessNotFound returns an error, or nil if it says that there is no such name.
func unlessNotFound(err error) error {
	if missing, ok := errors.AsType[*net.DNSError](err); ok && missing.IsNotFound {
		return nil
	}
	return err
}

// keepLocked keeps a claim until its end if there is room.
func keepLocked(claims map[claim]time.Time, most int, c claim, end, now time.Time) {
	if _, known := claims[c]; !known && len(claims) >= most {
		for other, end := range claims {
			if !now.Before(end) {
				delete(claims, other)
			}
		}
		if len(claims) >= most {
			return
		}
	}
	claims[c] = end
}

// denyLocked keeps a claim as denied, in the place of any other if there is no room: that one is
// looked up again if it comes back.
func (v *Verifier) denyLocked(c claim, end time.Time) {
	if len(v.denied) >= maxDenied {
		for other := range v.denied {
			delete(v.denied, other)
			break
		}
	}
	v.denied[c] = end
}
