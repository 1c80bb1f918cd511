package tally

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// response has what an answer says about limits: header fields and placeholders. It wraps the
// writer, so that it can replace header fields about limits that an upstream has set.
type response struct {
	caddyhttp.ResponseWriterWrapper
	style    headerStyle
	wrote    bool
	renews   bool          // whether to renew the client's session
	refusal  *refusal      // nil if the request may pass
	client   *client       // nil where no zone needs it
	statuses []limitStatus // the limit closest to exhaustion first
	room     [2]limitStatus

	// The values of header fields, made by join. No other response uses the same slices,
	// because Caddy's header directive writes into them.
	policies, limits [1]string
	legacy           *legacyFields
}

// refusedResponse is the response to a refused request, in one allocation.
type refusedResponse struct {
	response
	why refusal
}

// newResponse returns the response to a request that may pass.
func (e *evaluation) newResponse() *response {
	p := new(response)
	p.fill(e)
	return p
}

// newRefusedResponse returns the response to a request that a decision refuses.
func (e *evaluation) newRefusedResponse(d *engine.Decision) *response {
	p := new(refusedResponse)
	p.fill(e)
	p.why.fill(e, d)
	p.refusal = &p.why
	return &p.response
}

// fill adds what is left of the limits of each debit to an empty response.
func (p *response) fill(e *evaluation) {
	p.style, p.client, p.statuses = e.handler.style, e.client, p.room[:0]
	for i := range e.debits {
		if e.debits[i].Known && !e.isRedundant(i) {
			p.add(newLimitStatus(e.policies[i], &e.debits[i]))
		}
	}
}

// responseVar is the request variable that holds the response while it is made.
const responseVar = "rate_limit.response"

// join makes p the response of the request. If an earlier handler has made one, join adds p
// to that one instead. It makes the values of the header fields, and returns the response.
func (p *response) join(e *evaluation) *response {
	before, _ := e.vars[responseVar].(*response)
	if before == nil {
		e.vars[responseVar] = p
		e.repl.Map(p.placeholder)
		p.makeFields(&e.texts)
		return p
	}
	if p.refusal != nil {
		before.statuses = before.statuses[:0] // as in any refusal: only what refuses
		before.refusal = p.refusal
	}
	for _, s := range p.statuses {
		before.add(s)
	}
	before.makeFields(&e.texts)
	return before
}

// writer returns the writer for the next handler: p around w, or w if that is p already.
func (p *response) writer(w http.ResponseWriter) http.ResponseWriter {
	if p.ResponseWriter != nil {
		return w
	}
	p.ResponseWriter = w
	return p
}

func (p *response) add(s limitStatus) {
	p.statuses = append(p.statuses, s)
	for i := len(p.statuses) - 1; i > 0 && s.isTighter(p.statuses[i-1]); i-- {
		p.statuses[i-1], p.statuses[i] = s, p.statuses[i-1]
	}
}

// correct sets what is left of a limit when it is known that the request counts. It changes
// nothing of what is written already.
func (p *response) correct(policy *policy, left limiter.Quota) {
	if p.wrote {
		return
	}
	i := slices.IndexFunc(p.statuses, func(s limitStatus) bool { return s.policy == policy })
	if i < 0 {
		return
	}
	s := p.statuses[i]
	s.used += s.Remaining - left.Remaining
	s.Quota = left
	p.statuses = slices.Delete(p.statuses, i, i+1)
	p.add(s)
	p.makeFields(new(texts))
	p.setFields(p.Header())
}

// makeFields makes the values of the header fields.
func (p *response) makeFields(texts *texts) {
	if p.refusal != nil {
		p.refusal.makeField(texts)
	}
	if len(p.statuses) == 0 {
		return
	}
	if p.style.draft {
		p.policies[0], p.limits[0] = p.policyField(), p.limitField(texts)
	}
	if p.style.legacy {
		p.legacy = p.legacyFields()
	}
}

// setFields sets the header fields. It may be called several times: a later call replaces
// what others have added to the fields since.
func (p *response) setFields(h http.Header) {
	if len(p.statuses) == 0 {
		return
	}
	if p.style.draft && !(is(h[httpfield.Policy], &p.policies) && is(h[httpfield.Limit], &p.limits)) {
		h[httpfield.Policy], h[httpfield.Limit] = p.policies[:], p.limits[:]
	}
	if p.style.legacy {
		p.legacy.set(h)
	}
}

// is reports whether the values of a header field are those of a response. They need not be
// set again then, which takes longer than looking.
func is(values []string, of *[1]string) bool { return len(values) == 1 && &values[0] == &of[0] }

// policyField returns the value of RateLimit-Policy, with the items of each zone once.
func (p *response) policyField() (value string) {
	for i, s := range p.statuses {
		if slices.ContainsFunc(p.statuses[:i], s.isOfSet) {
			continue
		}
		if i > 0 {
			value += ", "
		}
		value += s.policy.set.field
	}
	return value
}

// limitField returns the value of RateLimit.
func (p *response) limitField(texts *texts) string {
	var room [128]byte
	b := room[:0]
	for i, s := range p.statuses {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, s.policy.item...)
		b = strconv.AppendInt(b, s.Remaining, 10)
		if s.Reset != limiter.Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, s.effective(p.refusal != nil), 10)
		}
	}
	return texts.of(b)
}

// WriteHeader implements http.ResponseWriter.
func (p *response) WriteHeader(status int) {
	p.restore(status)
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *response) Write(data []byte) (int, error) {
	p.restore(http.StatusOK)
	return p.ResponseWriter.Write(data)
}

// ReadFrom implements io.ReaderFrom.
func (p *response) ReadFrom(r io.Reader) (int64, error) {
	p.restore(http.StatusOK)
	return p.ResponseWriterWrapper.ReadFrom(r)
}

// restore sets our header fields again, just before the header is written.
func (p *response) restore(status int) {
	if p.wrote {
		return
	}
	p.wrote = isFinal(status)
	p.setFields(p.Header())
	if p.wrote {
		p.renew(p.Header())
	}
}

// exceededPlaceholders are the placeholders of a refusal, by the ends of their names.
var exceededPlaceholders = map[string]func(*refusal) any{
	"exceeded.name":     func(r *refusal) any { return r.policy.zone.Name },
	"exceeded.limit":    func(r *refusal) any { return r.policy.name },
	"exceeded.id":       func(r *refusal) any { return r.id() },
	"exceeded.short_id": func(r *refusal) any { return reference.Short(r.id()) },
	"exceeded.retry_after": func(r *refusal) any {
		if r.retry == limiter.Never {
			return ""
		}
		return httpfield.Seconds(r.retry)
	},
	"exceeded.retry_after_text": func(r *refusal) any { return wording.Wait(r.retry) },
}

// placeholder resolves `http.rate_limit.*`.
func (p *response) placeholder(key string) (any, bool) {
	name, ours := strings.CutPrefix(key, "http.rate_limit.")
	if !ours {
		return nil, false
	}
	if value := exceededPlaceholders[name]; value != nil && p.refusal != nil {
		return value(p.refusal), true
	}
	if strings.HasPrefix(name, "client") && p.client != nil {
		return p.client.placeholder(key)
	}
	zone, ok := strings.CutSuffix(name, ".remaining")
	if !ok {
		return nil, false
	}
	for _, s := range p.statuses { // the one closest to exhaustion comes first
		if s.policy.zone.Name == zone {
			return s.Remaining, true
		}
	}
	return nil, false
}

var _ caddy.ReplacerFunc = (*response)(nil).placeholder

// renew renews the client's session with an answer, unless shared caches may store it.
func (p *response) renew(h http.Header) {
	if !p.renews || httpfield.IsShareable(h, time.Now()) {
		return
	}
	if cookie := p.client.renewal(); cookie != "" {
		h.Add("Set-Cookie", cookie)
		meter.SessionRenewed()
	}
}

// isRedundant reports whether a debit is of a shared limit, and the client's own limit is as
// tight, so that the shared one is left out of the answer.
func (e *evaluation) isRedundant(nth int) bool {
	own := e.policies[nth].of
	if own == nil {
		return false
	}
	i := slices.Index(e.policies, own)
	return e.debits[i].Known && e.debits[i].Quota.Remaining <= e.debits[nth].Quota.Remaining
}

// headerStyle is which header fields are sent.
type headerStyle struct{ draft, legacy bool }
