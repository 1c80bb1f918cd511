package answer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Response holds an answer's header fields and placeholders about limits.
type Response struct {
	Refusal *Refusal // nil if the request may pass
	Renews  bool     // whether to renew the client's session

	out          writer // of the first handler that counts the request
	style        Style
	wrote        bool
	forOneClient bool        // no cache may store the answer, whatever it says
	own          http.Header // the fields that an answer of ours keeps; or nil
	client       Client      // nil if no zone needs it
	statuses     []Status    // the limit closest to exhaustion first
	room         [2]Status

	// The values of header fields, made by Join. Each response has slices of its own, because
	// Caddy's header directive writes into them.
	policies, limits [1]string
	legacy           *legacyFields
}

// Client is the client that an answer is for.
type Client interface {
	// Placeholder resolves the client's placeholders.
	Placeholder(key string) (value any, ok bool)
	// Renewal returns a Set-Cookie field that renews the client's session, or "".
	Renewal() string
}

// Refusal is the part of a refusal that answers tell.
type Refusal struct {
	*Item                     // the limit that refuses the request
	Retry       time.Duration // how long to wait, or limiter.Never
	NeverPasses bool          // no client may ever make the request
	Banned      bool          // the client is banned
	Of          Referrer
	Challenge   Challenge // for a browser that may earn a session; nil for others

	field   [1]string // the value of Retry-After
	values  [3]string // those of the fields of its body
	noStore [1]string // that of Cache-Control
}

// Referrer makes the reference with which a refused person can ask for the reason.
type Referrer interface {
	// ID returns the reference. It is empty if there is no secret to seal it with.
	ID() string
}

// Challenge is a page that lets a browser earn a session.
type Challenge interface {
	Show(w http.ResponseWriter, p *Response) error
}

// Begin begins an empty response. It doesn't change the header fields until it is joined.
func (r *Response) Begin(style Style, client Client) {
	r.style, r.client, r.statuses = style, client, r.room[:0]
}

// Tightest returns the limit that is closest to exhaustion, if the request was counted.
func (r *Response) Tightest() (s Status, ok bool) {
	if len(r.statuses) == 0 {
		return s, false
	}
	return r.statuses[0], true
}

// responseVar is the request variable that holds the unfinished response.
const responseVar = "rate_limit.response"

// Join makes r the response of a request with these variables. If an earlier handler made one, Join adds r
// to that one instead. It makes the values of the header fields, and returns the response.
func (r *Response) Join(vars map[string]any, repl *caddy.Replacer, texts *Texts) *Response {
	before, _ := vars[responseVar].(*Response)
	if before == nil {
		vars[responseVar] = r
		repl.Map(r.placeholder)
		r.makeFields(texts)
		return r
	}
	if r.Refusal != nil {
		before.statuses = before.statuses[:0] // as in any refusal: only the limit that refuses
		before.Refusal = r.Refusal
	}
	for _, s := range r.statuses {
		before.Add(s)
	}
	before.makeFields(texts)
	return before
}

// Add adds the rest of a limit's units.
func (r *Response) Add(s Status) {
	r.statuses = append(r.statuses, s)
	for i := len(r.statuses) - 1; i > 0 && s.isTighter(r.statuses[i-1]); i-- {
		r.statuses[i-1], r.statuses[i] = s, r.statuses[i-1]
	}
}

// Correct implements settle.Correctable. It sets the remaining units of a limit once it is known that the
// request counts. It doesn't change fields that are already written.
func (r *Response) Correct(limit settle.Limit, left limiter.Quota) {
	if r.wrote {
		return
	}
	i := slices.IndexFunc(r.statuses, func(s Status) bool { return s.Item.Of == limit })
	if i < 0 {
		return
	}
	s := r.statuses[i]
	s.Used += s.Remaining - left.Remaining
	s.Quota = left
	r.statuses = slices.Delete(r.statuses, i, i+1)
	r.Add(s)
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
	if r.style.Draft && !(areOwn(h[httpfield.Policy], &r.policies) && areOwn(h[httpfield.Limit], &r.limits)) {
		h[httpfield.Policy], h[httpfield.Limit] = r.policies[:], r.limits[:]
	}
	if r.style.Legacy {
		r.legacy.set(h)
	}
}

// areOwn reports whether a header field has the very values of a response. They need not be set again
// then, which would take longer than the check.
func areOwn(values []string, own *[1]string) bool { return len(values) == 1 && &values[0] == &own[0] }

// policyField returns the value of RateLimit-Policy, with the items of each zone once. The items of
// limits that are reduced, for this client or in an outage, have the amounts in force.
func (r *Response) policyField() (value string) {
	for i, s := range r.statuses {
		field := s.Set.Field
		switch reduced := func(t Status) bool { return t.Amount != 0 && t.isOfSet(s) }; {
		case slices.ContainsFunc(r.statuses, reduced):
			field = s.field(cmp.Or(s.Amount, s.limit.Amount()), cmp.Or(s.Capacity, s.limit.Capacity()))
		case slices.ContainsFunc(r.statuses[:i], s.isOfSet):
			continue
		}
		if i > 0 {
			value += ", "
		}
		value += field
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
		b = append(b, s.item...)
		b = strconv.AppendInt(b, s.Remaining, 10)
		if s.Reset != limiter.Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, s.effective(r.Refusal != nil), 10)
		}
	}
	return texts.text(b)
}

// restore sets our header fields again, just before the header is written.
func (r *Response) restore(status int, w http.ResponseWriter) {
	if r.wrote {
		return
	}
	r.wrote = isFinal(status)
	switch h := w.Header(); {
	case r.Refusal != nil:
		r.SetRefusal(w)
	case r.forOneClient:
		keepOwn(h, r.own, r.own["Content-Length"] != nil && h["Content-Length"] == nil)
		httpfield.NeverStore(h)
	default:
		r.setFields(h)
		if r.wrote && r.Renews && beneathDeferred(w, r.client) == nil {
			r.renew(h)
		}
	}
}

// ExceededPlaceholders are the placeholders of a refusal, by the suffixes of their names.
var ExceededPlaceholders = map[string]func(*Refusal) any{
	"exceeded.name":     func(r *Refusal) any { return r.Zone },
	"exceeded.limit":    func(r *Refusal) any { return r.Name },
	"exceeded.id":       func(r *Refusal) any { return r.Of.ID() },
	"exceeded.short_id": func(r *Refusal) any { return reference.Short(r.Of.ID()) },
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
		return r.client.Placeholder(key)
	}
	if name == LimitsPlaceholder {
		return r.asJSON(), true
	}
	zone, ok := strings.CutSuffix(name, ".remaining")
	if !ok {
		return nil, false
	}
	for _, s := range r.statuses { // the one closest to exhaustion comes first
		if s.Zone == zone {
			return s.Remaining, true
		}
	}
	return nil, false
}

// LimitsPlaceholder is the suffix of the placeholder of [Response.asJSON].
const LimitsPlaceholder = "limits"

// asJSON returns the limits of the request's zones as JSON, for answers that tell clients what they have used.
func (r *Response) asJSON() string {
	type state struct {
		Zone   string `json:"zone"`
		Limit  string `json:"limit"`
		Amount int64  `json:"amount"`
		Used   int64  `json:"used"`
		Left   int64  `json:"left"`
		Reset  int64  `json:"reset_seconds"`
	}
	list := []state{}
	for _, s := range r.statuses {
		if s.Reset != limiter.Never { // as with places of concurrent requests
			list = append(list, state{s.Zone, s.Name, cmp.Or(s.Capacity, s.limit.Capacity()), s.Used, s.Remaining,
				s.effective(r.Refusal != nil)})
		}
	}
	text, _ := json.Marshal(list) // texts and numbers
	return string(text)
}

var _ caddy.ReplacerFunc = (*Response)(nil).placeholder

// renew renews the client's session with an answer, unless shared caches may store the answer.
func (r *Response) renew(h http.Header) {
	if httpfield.IsShareable(h, time.Now()) {
		return
	}
	if cookie := r.client.Renewal(); cookie != "" {
		httpfield.ForbidSharing(h)
		h.Add("Set-Cookie", cookie)
	}
}

// Style selects the header fields.
type Style struct {
	Draft, Legacy bool
	Epoch         bool // legacy fields have times instead of waits
}

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
		limit:     [1]string{s.legacy()},
		remaining: [1]string{strconv.FormatInt(s.Remaining, 10)},
		reset:     [1]string{r.legacyReset(s)},
	}
	i := slices.IndexFunc(r.statuses, func(s Status) bool { return s.Item.Quota })
	if i < 0 {
		return f
	}
	s = r.statuses[i]
	f.hasQuota = true
	f.quotaUsed[0] = strconv.FormatInt(s.Used, 10)
	f.quotaLimit[0] = s.Legacy
	f.quotaReset[0] = r.legacyReset(s)
	return f
}

func (r *Response) legacyReset(s Status) string {
	seconds := s.effective(r.Refusal != nil)
	if r.style.Epoch {
		seconds += time.Now().Add(time.Second - 1).Unix() // rounded up, too
	}
	return strconv.FormatInt(seconds, 10)
}

func (f *legacyFields) set(h http.Header) {
	h[httpfield.LegacyLimit], h[httpfield.LegacyRemaining], h[httpfield.LegacyReset] = f.limit[:],
		f.remaining[:], f.reset[:]
	if f.hasQuota {
		h[httpfield.QuotaUsed], h[httpfield.QuotaLimit], h[httpfield.QuotaReset] = f.quotaUsed[:], f.quotaLimit[:],
			f.quotaReset[:]
	}
}

// Item is a limit as answers tell of it.
type Item struct {
	Zone   string
	Name   string
	Field  string       // its item of RateLimit-Policy
	Legacy string       // the value of X-RateLimit-Limit
	Quota  bool         // it has the longest of several windows: X-Quota-… describe it
	Set    *Set         // the limits that are told together
	Of     settle.Limit // the limit
	item   string       // its item of RateLimit up to the value of r
	limit  limiter.Limit
}

// Set is limits that are told together.
type Set struct {
	Field string // the value of RateLimit-Policy
}

// NewItem prepares a limit's values for header fields.
func NewItem(name string, limit limiter.Limit) Item {
	i := Item{Name: name, item: httpfield.String(name) + ";r=", Legacy: strconv.FormatInt(limit.Amount(), 10),
		limit: limit}
	i.Field = i.field(limit.Amount(), limit.Capacity())
	return i
}

// field returns the item of RateLimit-Policy with the amount and the capacity in force.
func (i *Item) field(amount, capacity int64) string {
	field := fmt.Sprintf("%s;q=%d;w=%d", httpfield.String(i.Name), amount, httpfield.Seconds(i.limit.Window()))
	if capacity != amount {
		field += fmt.Sprintf(";burst=%d", capacity)
	}
	return field
}

// Status is the rest of a client's units of one limit after a decision.
type Status struct {
	*Item
	limiter.Quota
	Used             int64
	Amount, Capacity int64          // in force, or 0 for those of Item
	InForce          *limiter.Limit // nil for that of Item
}

// legacy returns the value of X-RateLimit-Limit.
func (s Status) legacy() string {
	if s.Amount != 0 {
		return strconv.FormatInt(s.Amount, 10)
	}
	return s.Legacy
}

// isTighter reports whether s has a smaller part of its limit left than t.
func (s Status) isTighter(t Status) bool {
	return float64(s.Remaining)*float64(t.limit.Capacity()) < float64(t.Remaining)*float64(s.limit.Capacity())
}

// isOfSet reports whether two limits are of one set, or of two sets with equal fields.
func (s Status) isOfSet(t Status) bool { return s.Set.Field == t.Set.Field }

// effective returns the value of the parameter t in seconds: how long the remaining units must
// last, or if none remain, how long until units become free.
func (s Status) effective(refused bool) int64 {
	switch {
	case s.Remaining > 0:
		reset := s.Reset
		if s.limit.Algorithm() != limiter.Fixed { // months and days have different lengths
			reset = min(reset, s.limit.Window())
		}
		return max(httpfield.Seconds(reset), 0)
	case !refused:
		return max(httpfield.Seconds(s.Quota.NextUnit(cmp.Or(s.InForce, &s.limit))), 1)
	}
	return httpfield.Seconds(s.Reset)
}

// Texts makes short strings of bytes, with one allocation for many. The zero value is ready for
// use. It must not be copied. A retained string retains up to textsRoom bytes.
type Texts struct{ room strings.Builder }

// textsRoom is how many bytes are allocated at a time, about twenty header fields.
const textsRoom = 512

// text returns the bytes as a string. Later calls append behind it.
func (t *Texts) text(b []byte) string {
	if len(b) > t.room.Cap()-t.room.Len() {
		t.room.Reset() // gives up the room, which its strings still use
		t.room.Grow(max(textsRoom, len(b)))
	}
	from := t.room.Len()
	t.room.Write(b)
	return t.room.String()[from:]
}
