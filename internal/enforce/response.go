package enforce

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/settle"

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
func (r *Response) fill(e *Evaluation) {
	r.style, r.client, r.statuses = e.Handler.Style, e.Client, r.room[:0]
	for i := range e.Debits {
		if e.Debits[i].Known && !e.isRedundant(i) {
			r.add(newLimitStatus(e.Policies[i], &e.Debits[i]))
		}
	}
}

// ResponseVar is the request variable that holds the unfinished response.
const ResponseVar = "rate_limit.response"

// join makes p the response of the request. If an earlier handler made one, join adds p to that one
// instead. It makes the values of the header fields, and returns the response.
func (r *Response) join(e *Evaluation) *Response {
	before, _ := e.Vars[ResponseVar].(*Response)
	if before == nil {
		e.Vars[ResponseVar] = r
		e.Repl.Map(r.placeholder)
		r.makeFields(&e.texts)
		return r
	}
	if r.Refusal != nil {
		before.statuses = before.statuses[:0] // as in any refusal: only the limit that refuses
		before.Refusal = r.Refusal
	}
	for _, s := range r.statuses {
		before.add(s)
	}
	before.makeFields(&e.texts)
	return before
}

func (r *Response) add(s LimitStatus) {
	r.statuses = append(r.statuses, s)
	for i := len(r.statuses) - 1; i > 0 && s.isTighter(r.statuses[i-1]); i-- {
		r.statuses[i-1], r.statuses[i] = s, r.statuses[i-1]
	}
}

// Correct sets the remaining units of a limit once it is known that the request counts. It doesn't
// change fields that are already written.
func (r *Response) Correct(of settle.Limit, left limiter.Quota) {
	if r.wrote {
		return
	}
	i := slices.IndexFunc(r.statuses, func(s LimitStatus) bool { return s.Policy == of })
	if i < 0 {
		return
	}
	s := r.statuses[i]
	s.used += s.Remaining - left.Remaining
	s.Quota = left
	r.statuses = slices.Delete(r.statuses, i, i+1)
	r.add(s)
	r.makeFields(new(Texts))
	r.setFields(r.out.Header())
}

// makeFields makes the values of the header fields.
func (r *Response) makeFields(texts *Texts) {
	if r.Refusal != nil {
		r.Refusal.makeField(texts)
	}
	if len(r.statuses) == 0 {
		return
	}
	if r.style.Draft {
		r.policies[0], r.limits[0] = r.policyField(), r.limitField(texts)
	}
	if r.style.Legacy {
		r.legacy = r.legacyFields()
	}
}

// setFields sets the header fields. It may be called several times: a later call discards other
// handlers' additions to the fields.
func (r *Response) setFields(h http.Header) {
	if len(r.statuses) == 0 {
		return
	}
	if r.style.Draft && !(is(h[httpfield.Policy], &r.policies) && is(h[httpfield.Limit], &r.limits)) {
		h[httpfield.Policy], h[httpfield.Limit] = r.policies[:], r.limits[:]
	}
	if r.style.Legacy {
		r.legacy.set(h)
	}
}

// is reports whether a header field has the very values of a response. They need not be set again
// then, which would take longer than the check.
func is(values []string, of *[1]string) bool { return len(values) == 1 && &values[0] == &of[0] }

// policyField returns the value of RateLimit-Policy, with the items of each zone once.
func (r *Response) policyField() (value string) {
	for i, s := range r.statuses {
		if slices.ContainsFunc(r.statuses[:i], s.isOfSet) {
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
func (r *Response) limitField(texts *Texts) string {
	var room [128]byte
	b := room[:0]
	for i, s := range r.statuses {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, s.Policy.item...)
		b = strconv.AppendInt(b, s.Remaining, 10)
		if s.Reset != limiter.Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, s.Effective(r.Refusal != nil), 10)
		}
	}
	return texts.Of(b)
}

// restore sets our header fields again, just before the header is written.
func (r *Response) restore(status int, w http.ResponseWriter) {
	if r.wrote {
		return
	}
	r.wrote = isFinal(status)
	switch h := w.Header(); {
	case r.Refusal != nil:
		r.setRefusal(w)
	case r.forOneClient:
		httpfield.NeverStore(h)
	default:
		r.setFields(h)
		if r.wrote && r.renews && !beneathDeferred(w, r.client) {
			r.renew(h)
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
func (r *Response) placeholder(key string) (any, bool) {
	name, ours := strings.CutPrefix(key, "http.rate_limit.")
	if !ours {
		return nil, false
	}
	if value := ExceededPlaceholders[name]; value != nil && r.Refusal != nil {
		return value(r.Refusal), true
	}
	if strings.HasPrefix(name, "client") && r.client != nil {
		return r.client.placeholder(key)
	}
	zone, ok := strings.CutSuffix(name, ".remaining")
	if !ok {
		return nil, false
	}
	for _, s := range r.statuses { // the one closest to exhaustion comes first
		if s.Policy.Zone.Name == zone {
			return s.Remaining, true
		}
	}
	return nil, false
}

var _ caddy.ReplacerFunc = (*Response)(nil).placeholder

// renew renews the client's session with an answer, unless shared caches may store the answer.
func (r *Response) renew(h http.Header) {
	if httpfield.IsShareable(h, time.Now()) {
		return
	}
	if cookie := r.client.renewal(); cookie != "" {
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

func (r *Response) legacyFields() *legacyFields {
	s := r.statuses[0]
	f := &legacyFields{
		limit:     [1]string{s.Policy.Legacy},
		remaining: [1]string{strconv.FormatInt(s.Remaining, 10)},
		reset:     [1]string{strconv.FormatInt(s.Effective(r.Refusal != nil), 10)},
	}
	i := slices.IndexFunc(r.statuses, func(s LimitStatus) bool { return s.Policy.Quota })
	if i < 0 {
		return f
	}
	s = r.statuses[i]
	f.hasQuota = true
	f.quotaUsed[0] = strconv.FormatInt(s.used, 10)
	f.quotaLimit[0] = s.Policy.Legacy
	f.quotaReset[0] = strconv.FormatInt(s.Effective(r.Refusal != nil), 10)
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
		return max(httpfield.Seconds(s.Quota.NextUnit(&s.Policy.Rate)), 1)
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
