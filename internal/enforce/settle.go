package enforce

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// SettleRule is a measure of the units that a request has used when it ends.
type SettleRule struct {
	Bytes    bool   // of the answer's body
	Duration bool   // in milliseconds
	From     string // otherwise: placeholders for the units
}

// Usage is the measured use of a request that has ended.
type Usage struct {
	Bytes    int64
	Duration time.Duration
	Text     func(placeholders string) string // replaces them; unknown ones are empty
}

// Used returns how many units a request of some cost has used: its cost if a placeholder holds no
// whole number from 0.
func (z *Zone) Used(cost int64, u Usage) int64 {
	var used int64
	switch rule := z.Settle; {
	case rule.Bytes:
		used = u.Bytes
	case rule.Duration:
		used = max(u.Duration.Milliseconds(), 0)
	default:
		n, err := strconv.ParseInt(strings.TrimSpace(u.Text(rule.From)), 10, 64)
		if err != nil || n < 0 {
			return cost
		}
		used = n
	}
	if z.MaxCost != 0 {
		used = min(used, z.MaxCost)
	}
	return used
}

// Finish settles the debits whose units are known when the request ends. Only the first call has an
// effect. A nil pending settles nothing.
func (p *pending) Finish(u Usage) {
	p.finish(func(d pendingDebit) int64 { return d.policy.Zone.Used(d.Cost(), u) })
}

// giveBack settles them for a request that was denied.
func (p *pending) giveBack() { p.finish(func(pendingDebit) int64 { return 0 }) }

func (p *pending) finish(used func(pendingDebit) int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	before := p.used
	if before == nil {
		p.used = used
	}
	debits := p.debits
	p.mu.Unlock()
	if before != nil {
		return
	}
	for _, d := range debits {
		p.finishDebit(d, used)
	}
}

// finishDebit settles a debit of a zone with a rule.
func (p *pending) finishDebit(d pendingDebit, used func(pendingDebit) int64) {
	if d.policy.Zone.Settle == nil {
		return
	}
	units := used(d)
	d.SettleAt(units)
	p.report(d, units)
}

// usage returns the use of the request so far.
func (p *pending) usage() Usage {
	return Usage{Bytes: p.written.Load(), Duration: time.Since(p.began), Text: func(s string) string { return p.repl.ReplaceAll(s, "") }}
}

// wrote notes bytes of the answer's body. A nil pending notes nothing.
func (p *pending) wrote(n int64) {
	if p != nil && n > 0 {
		p.written.Add(n)
	}
}

// count makes a hijacked connection count its bytes to the client, if a zone needs that.
func (p *pending) count(conn net.Conn) net.Conn {
	if p == nil {
		return conn
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.debits, func(d pendingDebit) bool { return d.policy.Zone.Settle != nil && d.policy.Zone.Settle.Bytes }) {
		return countedConn{conn, &p.written}
	}
	return conn
}

// countedConn is a hijacked connection that counts the bytes to the client.
type countedConn struct {
	net.Conn
	written *atomic.Int64
}

// Write implements net.Conn.
func (c countedConn) Write(data []byte) (int, error) {
	n, err := c.Conn.Write(data)
	c.written.Add(int64(n))
	return n, err
}

// CloseWrite ends the stream to the client, as connections of TCP and TLS do: reverse_proxy passes on
// the end of one direction of a tunnel by it.
func (c countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
