package local

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// This file forecasts the outcome of a request.

// explainRequest passes a request of the target through the handlers of its server, and asks each
// of our handlers on its way.
func (ex *Explainer) explainRequest(ctx context.Context, q operator.Question) error {
	r, err := ex.RequestOf(ctx, q)
	if err != nil {
		return err
	}
	servers, err := serversOf(q.URL)
	if err != nil {
		return err
	}
	ex.Told.Next = operator.Forecast{Outcome: "allowed", Text: "passes: no limit is for it"}
	asked := 0
	for _, server := range servers {
		answers, err := routing.Follow(server, r.Clone(ctx), func(handler caddyhttp.MiddlewareHandler, r *http.Request) bool {
			h := enforce.EnforcerOf(handler)
			if h == nil {
				return true
			}
			asked++
			ex.Told.Next = ex.explainHandler(ctx, h, r)
			return ex.Told.Next.Status == 0
		})
		if err != nil {
			return operator.Errorf(http.StatusConflict, "url: a matcher of the config fails: %v", err)
		}
		if ex.Told.Next.Status == 0 {
			ex.Told.Next = addShadows(ex.Told.Next, ex.shadows)
		}
		if ex.Told.Ban != nil && ex.Told.Next.Outcome == "allowed" {
			ex.Told.Next.Text += "; the ban is of another client at this address, told apart by its header fields"
		}
		if asked > 0 || answers != "" {
			if asked == 0 {
				ex.Told.Next.Text = "passes: " + answers + " answers it before any rate_limit"
			}
			return nil
		}
	}
	return nil
}

// RequestOf returns the request in a question, as a server would receive it.
func (ex *Explainer) RequestOf(ctx context.Context, q operator.Question) (*http.Request, error) {
	if ex.Kind != operator.Address && ex.Kind != operator.APIKey {
		return nil, operator.Errorf(http.StatusBadRequest, "client: a request can be explained for an address or an api-key, got %s: ask without a URL", ex.Kind)
	}
	u, err := url.Parse(q.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, operator.Errorf(http.StatusBadRequest, "url: got %q: expected one with scheme and host, such as https://example.com/login", q.URL)
	}
	u.Path = cmp.Or(u.Path, "/")
	method := cmp.Or(strings.ToUpper(q.Method), http.MethodGet)
	r, err := http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return nil, operator.Errorf(http.StatusBadRequest, "method: got %q: expected a method such as POST", q.Method)
	}
	r.RequestURI, r.URL.Scheme, r.URL.Host = u.RequestURI(), "", "" // as a server receives it, not a proxy
	for name, values := range q.Header {                            // as a server receives them
		name = http.CanonicalHeaderKey(name)
		r.Header[name] = append(r.Header[name], values...)
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
		r.Header.Del("Host")
	}
	if ex.Kind == operator.Address {
		r.RemoteAddr = net.JoinHostPort(ex.Network.Addr().String(), "0")
	}
	if u.Scheme == "https" {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true, ServerName: u.Hostname(), Version: tls.VersionTLS13}
	}
	return r, nil
}

// serversOf returns the servers that listen on the port of a valid URL, or all if none does.
func serversOf(address string) ([]*caddyhttp.Server, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		return nil, operator.Errorf(http.StatusConflict, "url: the running config has no sites")
	}
	servers := app.(*caddyhttp.App).Servers
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	var listening, all []*caddyhttp.Server
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		all = append(all, servers[name])
		if slices.ContainsFunc(servers[name].Listen, func(address string) bool { return strings.HasSuffix(address, ":"+port) }) {
			listening = append(listening, servers[name])
		}
	}
	if listening != nil {
		return listening, nil
	}
	return all, nil
}

// explainHandler forecasts a handler's treatment of the request. It goes through the steps of
// enforce's decideEnforced without their effects: each step there has a case here.
func (ex *Explainer) explainHandler(ctx context.Context, h *enforce.Handler, r *http.Request) operator.Forecast {
	vars := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	if ex.Kind == operator.Address {
		vars[caddyhttp.ClientIPVarKey] = ex.Network.Addr().String()
	} else {
		vars[caddyhttp.ClientIPVarKey] = ""
	}
	e := h.Begin(r)
	defer e.Release()
	e.Dry = true
	if ex.Kind == operator.APIKey {
		e.Credentials = enforce.Credentials{Known: true, Name: ex.Value, Tier: h.App.APIKeys.TierOf(ex.Value, ex.Now)}
	}
	settled, err := e.Collect()
	if c := &e.Credentials; c.Tier != "" && ex.Told.Tier == "" {
		ex.Told.Tier, ex.Told.TierReason = c.Tier, tierReason(c)
	}
	switch exempt, _ := e.IsExempt(); {
	case err != nil:
		return operator.Forecast{Outcome: "failed", Status: http.StatusInternalServerError, Text: "fails: " + err.Error()}
	case exempt:
		ex.Told.Exempt = true
		return operator.Forecast{Outcome: "exempt", Text: "passes: it is exempt"}
	case settled.Outcome == enforce.Refused:
		return ex.refuses("banned", enforce.BanName, enforce.BanName, settled.Response.Refusal.Retry, "because an operator or a block list has banned the client")
	case e.Allowed && e.Denied == nil:
		ex.explainShadows(ctx, &e.Shadows) // denials
		return operator.Forecast{Outcome: "allowed", Text: "passes: an operator allows it"}
	case e.TrapBan > 0:
		return ex.refuses("banned", enforce.BanName, enforce.BanName, e.TrapBan, "because it goes into a trap, which bans")
	case e.RefusedBy != nil:
		return ex.refuses("denied", e.RefusedBy.Zone.Name, e.RefusedBy.Name, limiter.Never, "by zone "+e.RefusedBy.Zone.Name+", which admits nothing")
	}
	return ex.explainDebits(ctx, e)
}

// ofItsKey is the reason for the tier of an API key's client.
const ofItsKey = "of its API key"

// tierReason returns the reason for a client's tier.
func tierReason(c *enforce.Credentials) string {
	switch {
	case c.Service:
		return "of its service header"
	case c.Name != "":
		return ofItsKey
	}
	return "of requests without a known API key"
}

// explainDebits forecasts the decision about the debits of a request.
func (ex *Explainer) explainDebits(ctx context.Context, e *enforce.Evaluation) operator.Forecast {
	for i, p := range e.Policies {
		if len(ex.Told.Limits) < maxExplained && ex.isKnown(&e.Debits[i]) {
			ex.explainLimit(ctx, p, e.Debits[i])
		}
	}
	ex.explainShadows(ctx, &e.Shadows)
	debits := slices.Clone(e.Debits)
	d := ex.Instance.Forecast(ctx, e.Subject, debits)
	switch {
	case d.Reason == engine.Banned:
		return ex.refuses("banned", enforce.BanName, enforce.BanName, d.Retry, "because the client is banned for what it did")
	case d.Reason == engine.Abandoned:
		return operator.Forecast{Outcome: "failed", Status: http.StatusServiceUnavailable, Text: "that could not be found out in time"}
	case !d.Allowed && len(debits) > 0:
		p := e.Policies[d.Debit]
		return ex.refusedByDebit(d, p, debits[d.Debit].Cost)
	case e.Denied != nil:
		return operator.Forecast{Outcome: "denied", Status: e.Denied.Status, Text: "is denied: " + e.Denied.Text}
	case len(debits) == 0 && len(e.Shadows.Debits) == 0:
		return operator.Forecast{Outcome: "allowed", Text: "passes: no limit is for it" + loadText(e)}
	case len(debits) == 0:
		return operator.Forecast{Outcome: "allowed", Text: "passes: all limits for it are in shadow"}
	}
	return operator.Forecast{Outcome: "allowed", Text: "passes" + countsText(e) + loadText(e)}
}

// loadText describes how the forecast depends on the load: which zones don't apply because it is
// low, and how many requests may be in flight; or "".
func loadText(e *enforce.Evaluation) (text string) {
	for _, z := range e.Handler.Zones {
		if len(z.When) == 0 && z.Concurrency == nil {
			continue
		}
		switch matches, err := z.Matchers.AnyMatchWithError(e.Http); {
		case !matches || err != nil:
		case !z.Applies(e.Handler.App.Now()):
			text += "; zone " + z.Name + " doesn't apply, only when " + z.When[0].Text
		case z.Concurrency != nil && !z.RefusesNothing:
			text += fmt.Sprintf("; in zone %s, unless %d are under way", z.Name, z.Concurrency.Most)
		}
	}
	return text
}

// explainShadows adds the states of the request's shadow limits, and notes those that would refuse it.
func (ex *Explainer) explainShadows(ctx context.Context, s *enforce.Charges) {
	for from := 0; from < len(s.Debits); {
		to := s.End(from)
		for i, p := range s.Policies[from:to] {
			if len(ex.Told.Limits) < maxExplained && p.ID != 0 && ex.isKnown(&s.Debits[from+i]) {
				ex.explainLimit(ctx, p, s.Debits[from+i])
			}
		}
		if d := ex.Instance.Forecast(ctx, nil, slices.Clone(s.Debits[from:to])); !d.Allowed && d.Reason != engine.Abandoned {
			ex.shadows = append(ex.shadows, s.Policies[from+d.Debit])
		}
		from = to
	}
}

// countsText describes which answers make the request use up units of some zones, or "".
func countsText(e *enforce.Evaluation) (text string) {
	var last *enforce.Zone
	for _, p := range e.Policies {
		if z := p.Zone; z != last && z.Count != nil {
			text += "; in zone " + z.Name + " it counts only if it is answered with " + strings.Join(z.Count.Answers(), " or ")
			last = z
		}
	}
	return text
}

// isKnown reports whether the target determines a debit's key. A target that is only the name of an
// API key has no address to count by.
func (ex *Explainer) isKnown(d *engine.Debit) bool {
	return ex.Kind == operator.Address || len(d.Key) > 0 && d.Key[0] != identity.TagUnknown
}
