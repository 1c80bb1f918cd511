package settle

import (
	"cmp"
	"errors"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Rule is a measure of the units that a request has used when it ends.
type Rule struct {
	Bytes    bool     // of the answer's body
	Duration bool     // in milliseconds
	From     string   // otherwise: placeholders for the units, which are added up if there are several words
	Answer   []string // those in From that are fields of the answer's body
	silence  sync.Once
}

// Usage is the measured use of a request that has ended.
type Usage struct {
	Bytes    int64
	Duration time.Duration
	Text     string // of the zone's placeholders
}

// Used returns how many units a request of some cost has used: its cost if the placeholders hold no
// whole number from 0, and at least its cost if one of several holds nothing.
func (t *Terms) Used(cost int64, u Usage) int64 {
	var used int64
	switch rule := t.Settle; {
	case rule.Bytes:
		used = u.Bytes
	case rule.Duration:
		used = max(u.Duration.Milliseconds(), 0)
	default:
		units, missing, ok := rule.sum(u.Text)
		if !ok {
			return cost
		}
		if used = units; missing {
			used = max(units, cost)
		}
	}
	if t.MaxCost != 0 {
		used = min(used, t.MaxCost)
	}
	return used
}

// sum returns the sum of the units in a text of placeholders, and whether any of them is missing.
func (r *Rule) sum(text string) (units int64, missing, ok bool) {
	words := strings.Fields(text)
	for _, word := range words {
		n, isUnits := ParseUnits(word)
		if !isUnits {
			return 0, false, false
		}
		if units += n; units < 0 {
			units = math.MaxInt64
		}
	}
	most := len(strings.Fields(r.From))
	return units, len(words) < most, len(words) <= most
}

// Finish settles the debits whose units, or whose trailers, are known when the request ends. Only the first call has an
// effect. A nil Pending settles nothing.
func (p *Pending) Finish(u Usage) {
	if p == nil {
		return
	}
	p.mu.Lock()
	said, answered := p.said, p.status.status/100 == 2
	p.mu.Unlock()
	p.finish(func(d debit) int64 {
		u, rule := u, d.terms().Settle
		if rule.From != "" && p.repl != nil { // in a replay there is no answer
			u.Text = cmp.Or(p.repl.ReplaceAll(rule.From, ""), said[rule])
			if _, missing, ok := rule.sum(u.Text); (missing || !ok) && answered {
				p.book.Silent(rule)
			}
		}
		return d.terms().Used(d.Cost(), u)
	})
}

// Listen notes what the header of an answer says of the use, before handlers around this one remove it, and
// whether the body may say it. Only the first call before the status is settled has an effect: those with each piece of
// the body come after the fields are removed. A nil Pending notes nothing.
func (p *Pending) Listen(header http.Header) {
	if p == nil || p.isSettled() {
		return
	}
	if fields := p.answerFields(); !p.head {
		p.reader = newAnswerReader(fields, header)
	}
	if p.byStatus {
		p.web = newWebReader(header)
	}
	p.mu.Lock()
	debits := p.debits
	p.mu.Unlock()
	var said map[*Rule]string
	for _, d := range debits {
		if rule := d.terms().Settle; rule != nil && rule.From != "" {
			if said == nil {
				said = make(map[*Rule]string)
			}
			said[rule] = p.repl.ReplaceAll(rule.From, "")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = said
}

// WhenSilent calls f the first time that an answer lacks what it should say of the use.
func (r *Rule) WhenSilent(f func()) { r.silence.Do(f) }

// ParseUnits parses a number of units. A larger number than fits is the largest.
func ParseUnits(text string) (units int64, ok bool) {
	units, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return units, units >= 0 && (err == nil || units == math.MaxInt64) // ParseInt returns that for larger numbers
}

// Deny settles the debits of a request that was denied, which has used nothing. A nil Pending settles
// nothing.
func (p *Pending) Deny(status int) {
	p.Settle(status, nil)
	p.finish(func(debit) int64 { return 0 })
}

func (p *Pending) finish(used func(debit) int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	before, by := p.used, p.status
	if before == nil {
		p.used = used
	}
	debits := p.debits
	p.mu.Unlock()
	if before != nil {
		return
	}
	for _, d := range debits {
		p.finishDebit(d, by, used)
	}
}

// finishDebit settles a debit of a zone with a rule, or that counts by trailers.
func (p *Pending) finishDebit(d debit, by settledBy, used func(debit) int64) {
	var units int64
	switch count := d.terms().Count; {
	case d.terms().Settle != nil:
		units = used(d)
	case !count.inTrailers():
		return
	case by.counts(count):
		units = d.Cost()
	}
	d.SettleAt(units)
	p.book.Spent(d.limit, d.leads, d.Key(), units)
}

// usage returns the use of the request so far.
func (p *Pending) usage() Usage {
	return Usage{Bytes: p.written.Load(), Duration: time.Since(p.began)}
}

// Wrote notes bytes of the answer's body, which an answer to HEAD doesn't send. A nil Pending notes
// nothing.
func (p *Pending) Wrote(n int64) {
	if p != nil && n > 0 && !p.head {
		p.written.Add(n)
	}
}

// CountBytes makes a hijacked connection count its bytes to the client, if a zone needs that.
func (p *Pending) CountBytes(conn net.Conn) net.Conn {
	if p == nil {
		return conn
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.debits, func(d debit) bool { return d.terms().Settle != nil && d.terms().Settle.Bytes }) {
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
