package enforce

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// SettleRule is a measure of the units that a request has used when it ends.
type SettleRule struct {
	Bytes    bool   // of the answer's body
	Duration bool   // in milliseconds
	From     string // otherwise: placeholders for the units
	silence  sync.Once
}

// Usage is the measured use of a request that has ended.
type Usage struct {
	Bytes    int64
	Duration time.Duration
	Text     string // of the zone's placeholders
}

// Used returns how many units a request of some cost has used: its cost if the placeholders hold no
// whole number from 0.
func (z *Zone) Used(cost int64, u Usage) int64 {
	var used int64
	switch rule := z.Settle; {
	case rule.Bytes:
		used = u.Bytes
	case rule.Duration:
		used = max(u.Duration.Milliseconds(), 0)
	default:
		units, ok := parseUnits(u.Text)
		if !ok {
			return cost
		}
		used = units
	}
	if z.MaxCost != 0 {
		used = min(used, z.MaxCost)
	}
	return used
}

// Finish settles the debits whose units are known when the request ends. Only the first call has an
// effect. A nil pending settles nothing.
func (p *pending) Finish(u Usage) {
	if p == nil {
		return
	}
	p.mu.Lock()
	said, answered := p.said, p.status.status/100 == 2
	p.mu.Unlock()
	p.finish(func(d pendingDebit) int64 {
		u, rule := u, d.policy.Zone.Settle
		if rule.From != "" && p.repl != nil { // in a replay there is no answer
			u.Text = cmp.Or(p.repl.ReplaceAll(rule.From, ""), said[rule])
			if _, ok := parseUnits(u.Text); !ok && answered {
				p.app.noteSilence(rule)
			}
		}
		return d.policy.Zone.Used(d.Cost(), u)
	})
}

// listen notes what the header of an answer says of the use, before handlers around this one remove it.
// A nil pending notes nothing.
func (p *pending) listen() {
	if p == nil {
		return
	}
	p.mu.Lock()
	debits := p.debits
	p.mu.Unlock()
	var said map[*SettleRule]string
	for _, d := range debits {
		if rule := d.policy.Zone.Settle; rule != nil && rule.From != "" {
			if said == nil {
				said = make(map[*SettleRule]string)
			}
			said[rule] = p.repl.ReplaceAll(rule.From, "")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = said
}

// noteSilence warns once of an answer that lacks what it should say of the use.
func (cfg *Config) noteSilence(rule *SettleRule) {
	rule.silence.Do(func() {
		cfg.Warn(fmt.Sprintf("settle: an answer had no whole number in %s, so that its cost stayed charged", rule.From),
			"the field that the upstream sends, and let no handler behind rate_limit remove it")
	})
}

// Deny settles the debits of a request that was denied, which has used nothing. A nil pending settles
// nothing.
func (p *pending) Deny(status int) {
	p.Settle(status, nil)
	p.finish(func(pendingDebit) int64 { return 0 })
}

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
	return Usage{Bytes: p.written.Load(), Duration: time.Since(p.began)}
}

// wrote notes bytes of the answer's body, which an answer to HEAD doesn't send. A nil pending notes
// nothing.
func (p *pending) wrote(n int64) {
	if p != nil && n > 0 && !p.head {
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
