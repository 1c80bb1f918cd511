package enforce

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Response holds an answer's header fields and placeholders about limits.
type Response struct {
	out          answerWriter // of the first handler that counts the request
	style        HeaderStyle
	wrote        bool
	renews       bool          // whether to renew the client's session
	forOneClient bool          // no cache may store the answer, whatever it says
	Refusal      *Refusal      // nil if the request may pass
	client       *Client       // nil if no zone needs it
	statuses     []LimitStatus // the limit closest to exhaustion first
	room         [2]LimitStatus

	// The values of header fields, made by join. Each response has slices of its own, because
	// Caddy's header directive writes into them.
	policies, limits [1]string
	legacy           *legacyFields
}

// refusedResponse is the response to a refused request, in one allocation.
type refusedResponse struct {
	Response
	why Refusal
}

// newResponse returns the response to a request that may pass.
func (e *Evaluation) newResponse() *Response {
	p := new(Response)
	p.fill(e)
	if e.entered {
		p.addPlaces(e.places)
	}
	return p
}

// newRefusedResponse returns the response to a request that a decision refuses.
func (e *Evaluation) newRefusedResponse(d *engine.Decision) *Response {
	p := new(refusedResponse)
	p.fill(e)
	p.why.fill(e, d)
	p.Refusal = &p.why
	return &p.Response
}

// fill adds the remaining units of each debit's limit to an empty response.
func (p *Response) fill(e *Evaluation) {
	p.style, p.client, p.statuses = e.Handler.Style, e.Client, p.room[:0]
	for i := range e.Debits {
		if e.Debits[i].Known && !e.isRedundant(i) {
			p.add(newLimitStatus(e.Policies[i], &e.Debits[i]))
		}
	}
}

// ResponseVar is the request variable that holds the unfinished response.
const ResponseVar = "rate_limit.response"

// join makes p the response of the request. If an earlier handler made one, join adds p to that one
// instead. It makes the values of the header fields, and returns the response.
func (p *Response) join(e *Evaluation) *Response {
	before, _ := e.Vars[ResponseVar].(*Response)
	if before == nil {
		e.Vars[ResponseVar] = p
		e.Repl.Map(p.placeholder)
		p.makeFields(&e.texts)
		return p
	}
	if p.Refusal != nil {
		before.statuses = before.statuses[:0] // as in any refusal: only the limit that refuses
		before.Refusal = p.Refusal
	}
	for _, s := range p.statuses {
		before.add(s)
	}
	before.makeFields(&e.texts)
	return before
}

func (p *Response) add(s LimitStatus) {
	p.statuses = append(p.statuses, s)
	for i := len(p.statuses) - 1; i > 0 && s.isTighter(p.statuses[i-1]); i-- {
		p.statuses[i-1], p.statuses[i] = s, p.statuses[i-1]
	}
}

// correct sets the remaining units of a limit once it is known that the request counts. It doesn't
// change fields that are already written.
func (p *Response) correct(policy *Policy, left limiter.Quota) {
	if p.wrote {
		return
	}
	i := slices.IndexFunc(p.statuses, func(s LimitStatus) bool { return s.Policy == policy })
	if i < 0 {
		return
	}
	s := p.statuses[i]
	s.used += s.Remaining - left.Remaining
	s.Quota = left
	p.statuses = slices.Delete(p.statuses, i, i+1)
	p.add(s)
	p.makeFields(new(Texts))
	p.setFields(p.out.Header())
}

// makeFields makes the values of the header fields.
func (p *Response) makeFields(texts *Texts) {
	if p.Refusal != nil {
		p.Refusal.makeField(texts)
	}
	if len(p.statuses) == 0 {
		return
	}
	if p.style.Draft {
		p.policies[0], p.limits[0] = p.policyField(), p.limitField(texts)
	}
	if p.style.Legacy {
		p.legacy = p.legacyFields()
	}
}

// setFields sets the header fields. It may be called several times: a later call discards other
// handlers' additions to the fields.
func (p *Response) setFields(h http.Header) {
	if len(p.statuses) == 0 {
		return
	}
	if p.style.Draft && !(is(h[httpfield.Policy], &p.policies) && is(h[httpfield.Limit], &p.limits)) {
		h[httpfield.Policy], h[httpfield.Limit] = p.policies[:], p.limits[:]
	}
	if p.style.Legacy {
		p.legacy.set(h)
	}
}

// is reports whether a header field has the very values of a response. They need not be set again
// then, which would take longer than the check.
func is(values []string, of *[1]string) bool { return len(values) == 1 && &values[0] == &of[0] }

// policyField returns the value of RateLimit-Policy, with the items of each zone once.
func (p *Response) policyField() (value string) {
	for i, s := range p.statuses {
		if slices.ContainsFunc(p.statuses[:i], s.isOfSet) {
			continue
		}
		if i > 0 {
			value += ", "
		}
		value += s.Policy.Set.Field
	}
	return value
}

// limitField returns the value of RateLimit.
func (p *Response) limitField(texts *Texts) string {
	var room [128]byte
	b := room[:0]
	for i, s := range p.statuses {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, s.Policy.item...)
		b = strconv.AppendInt(b, s.Remaining, 10)
		if s.Reset != limiter.Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, s.Effective(p.Refusal != nil), 10)
		}
	}
	return texts.Of(b)
}

// restore sets our header fields again, just before the header is written.
func (p *Response) restore(status int, w http.ResponseWriter) {
	if p.wrote {
		return
	}
	p.wrote = isFinal(status)
	switch h := w.Header(); {
	case p.Refusal != nil:
		p.setRefusal(w)
	case p.forOneClient:
		httpfield.NeverStore(h)
	default:
		p.setFields(h)
		if p.wrote && p.renews && !beneathDeferred(w, p.client) {
			p.renew(h)
		}
	}
}

// ExceededPlaceholders are the placeholders of a refusal, by the suffixes of their names.
var ExceededPlaceholders = map[string]func(*Refusal) any{
	"exceeded.name":     func(r *Refusal) any { return r.Policy.Zone.Name },
	"exceeded.limit":    func(r *Refusal) any { return r.Policy.Name },
	"exceeded.id":       func(r *Refusal) any { return r.id() },
	"exceeded.short_id": func(r *Refusal) any { return reference.Short(r.id()) },
	"exceeded.retry_after": func(r *Refusal) any {
		if r.Retry == limiter.Never {
			return ""
		}
		return httpfield.Seconds(r.Retry)
	},
	"exceeded.retry_after_text": func(r *Refusal) any { return wording.Wait(r.Retry) },
}

// placeholder resolves `http.rate_limit.*`.
func (p *Response) placeholder(key string) (any, bool) {
	name, ours := strings.CutPrefix(key, "http.rate_limit.")
	if !ours {
		return nil, false
	}
	if value := ExceededPlaceholders[name]; value != nil && p.Refusal != nil {
		return value(p.Refusal), true
	}
	if strings.HasPrefix(name, "client") && p.client != nil {
		return p.client.placeholder(key)
	}
	zone, ok := strings.CutSuffix(name, ".remaining")
	if !ok {
		return nil, false
	}
	for _, s := range p.statuses { // the one closest to exhaustion comes first
		if s.Policy.Zone.Name == zone {
			return s.Remaining, true
		}
	}
	return nil, false
}

var _ caddy.ReplacerFunc = (*Response)(nil).placeholder

// renew renews the client's session with an answer, unless shared caches may store the answer.
func (p *Response) renew(h http.Header) {
	if httpfield.IsShareable(h, time.Now()) {
		return
	}
	if cookie := p.client.renewal(); cookie != "" {
		httpfield.ForbidSharing(h)
		h.Add("Set-Cookie", cookie)
		meter.SessionRenewed()
	}
}

// isRedundant reports whether a debit is from a shared limit although the client's own limit is as
// tight. The answer omits the shared limit then.
func (e *Evaluation) isRedundant(nth int) bool {
	own := e.Policies[nth].Of
	if own == nil {
		return false
	}
	i := slices.Index(e.Policies, own)
	return e.Debits[i].Known && e.Debits[i].Quota.Remaining <= e.Debits[nth].Quota.Remaining
}

// HeaderStyle selects the header fields.
type HeaderStyle struct{ Draft, Legacy bool }

// legacyFields are the values of the X-RateLimit fields, for the limit closest to exhaustion, and
// of the X-Quota fields, for the limit with the longest of several windows.
type legacyFields struct {
	limit, remaining, reset           [1]string
	hasQuota                          bool
	quotaUsed, quotaLimit, quotaReset [1]string
}

func (p *Response) legacyFields() *legacyFields {
	s := p.statuses[0]
	f := &legacyFields{
		limit:     [1]string{s.Policy.Legacy},
		remaining: [1]string{strconv.FormatInt(s.Remaining, 10)},
		reset:     [1]string{strconv.FormatInt(s.Effective(p.Refusal != nil), 10)},
	}
	i := slices.IndexFunc(p.statuses, func(s LimitStatus) bool { return s.Policy.Quota })
	if i < 0 {
		return f
	}
	s = p.statuses[i]
	f.hasQuota = true
	f.quotaUsed[0] = strconv.FormatInt(s.used, 10)
	f.quotaLimit[0] = s.Policy.Legacy
	f.quotaReset[0] = strconv.FormatInt(s.Effective(p.Refusal != nil), 10)
	return f
}

func (f *legacyFields) set(h http.Header) {
	h[httpfield.LegacyLimit], h[httpfield.LegacyRemaining], h[httpfield.LegacyReset] = f.limit[:], f.remaining[:], f.reset[:]
	if f.hasQuota {
		h[httpfield.QuotaUsed], h[httpfield.QuotaLimit], h[httpfield.QuotaReset] = f.quotaUsed[:], f.quotaLimit[:], f.quotaReset[:]
	}
}

// LimitStatus is the rest of a client's units of one limit after a decision.
type LimitStatus struct {
	Policy *Policy
	limiter.Quota
	used int64
}

// newLimitStatus returns the units that a debit leaves its client. The deciding limit may be a
// share of the policy's, which the used units are counted from.
func newLimitStatus(p *Policy, d *engine.Debit) LimitStatus {
	left := d.Quota
	if p.Zone != nil && p.Zone.Settle != nil && d.Pending != nil {
		left = d.Pending.Counted // what it holds is taken until it ends
	}
	return LimitStatus{p, left, max(cmp.Or(d.Reduced, d.Limit.Capacity())-left.Remaining, 0)}
}

// isTighter reports whether s has a smaller part of its limit left than t.
func (s LimitStatus) isTighter(t LimitStatus) bool {
	return float64(s.Remaining)*float64(t.Policy.Capacity()) < float64(t.Remaining)*float64(s.Policy.Capacity())
}

// isOfSet reports whether two limits are of one set, or of two sets with equal fields.
func (s LimitStatus) isOfSet(t LimitStatus) bool { return s.Policy.Set.Field == t.Policy.Set.Field }

// Effective returns the value of the parameter t in seconds: how long the remaining units must
// last, or if none remain, how long until units become free.
func (s LimitStatus) Effective(refused bool) int64 {
	switch {
	case s.Remaining > 0:
		return max(httpfield.Seconds(min(s.Reset, s.Policy.Window())), 0)
	case !refused:
		return max(httpfield.Seconds(s.Quota.NextUnit(&s.Policy.Limit.Limit)), 1)
	}
	return httpfield.Seconds(s.Reset)
}

// Texts makes short strings of bytes, with one allocation for many. The zero value is ready for
// use. It must not be copied. A retained string retains up to TextsRoom bytes.
type Texts struct{ room strings.Builder }

// TextsRoom is how many bytes are allocated at a time, about twenty header fields.
const TextsRoom = 512

// Of returns the bytes as a string. Later calls append behind it.
func (t *Texts) Of(b []byte) string {
	if len(b) > t.room.Cap()-t.room.Len() {
		t.room.Reset() // gives up the room, which its strings still use
		t.room.Grow(max(TextsRoom, len(b)))
	}
	from := t.room.Len()
	t.room.Write(b)
	return t.room.String()[from:]
}
