package local

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

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
func (ex *explainer) explainRequest(ctx context.Context, q operator.Question) error {
	r, port, err := ex.requestOf(ctx, q)
	if err != nil {
		return err
	}
	servers, err := serversOn(port)
	if err != nil {
		return err
	}
	ex.Answer.Next = operator.Forecast{Outcome: "allowed", Text: "passes: no limit is for it"}
	asked := 0
	for _, server := range servers {
		answers, err := routing.Follow(server, r.Clone(ctx),
			func(handler caddyhttp.MiddlewareHandler, r *http.Request) bool {
				h := enforce.EnforcerOf(handler)
				if h == nil {
					return true
				}
				asked++
				return ex.explainHandler(ctx, h, r)
			})
		if err != nil {
			return operator.Errorf(http.StatusConflict, "url: a matcher of the config fails: %v", err)
		}
		if ex.Answer.Next.Status == 0 {
			ex.Answer.Next = addShadows(ex.Answer.Next, ex.shadows)
		}
		if ex.Answer.Ban != nil && ex.Answer.Next.Outcome == "allowed" {
			ex.Answer.Next.Text += "; the ban is of another client at this address, told apart by its header fields"
		}
		if asked > 0 || answers != "" {
			if asked == 0 {
				ex.Answer.Next.Text = "passes: " + answers + " answers it before any rate_limit"
			}
			return nil
		}
	}
	return nil
}

// requestOf returns the request in a question, as a server would receive it, and the server's port.
func (ex *explainer) requestOf(ctx context.Context, q operator.Question) (r *http.Request, port string, err error) {
	if ex.Kind != operator.Address && ex.Kind != operator.APIKey {
		return nil, "", operator.Errorf(http.StatusBadRequest,
			"client: a request can be explained for an address or an api-key, got %s: ask without a URL", ex.Kind)
	}
	u, err := url.Parse(q.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, "", operator.Errorf(http.StatusBadRequest,
			"url: got %q: expected one with scheme and host, such as https://example.com/login", q.URL)
	}
	u.Path = cmp.Or(u.Path, "/")
	method := cmp.Or(strings.ToUpper(q.Method), http.MethodGet)
	r, err = http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return nil, "", operator.Errorf(http.StatusBadRequest,
			"method: got %q: expected a method such as POST", q.Method)
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
	return r, cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]), nil
}

// serversOn returns the servers that listen on a port, or all if none does.
func serversOn(port string) ([]*caddyhttp.Server, error) {
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		return nil, operator.Errorf(http.StatusConflict, "url: the running config has no sites")
	}
	listening, others := routing.ServersOn(port, app.(*caddyhttp.App).Servers)
	if listening != nil {
		return listening, nil
	}
	return others, nil
}

// explainHandler adds a handler's verdict about the request, and reports whether the request goes on.
func (ex *explainer) explainHandler(ctx context.Context, h *enforce.Handler, r *http.Request) (goesOn bool) {
	vars := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	vars[caddyhttp.ClientIPVarKey] = ""
	if ex.Kind == operator.Address {
		vars[caddyhttp.ClientIPVarKey] = ex.Network.Addr().String()
	}
	e := h.Begin(r).By(enforce.Forecast{Config: h.Config})
	defer e.Release()
	if ex.Kind == operator.APIKey {
		e.Credentials = h.Config.APIKeys.CredentialsOf(ex.Value, ex.Now)
	}
	v, err := e.Decide()
	if c := &e.Credentials; c.Tier != "" && ex.Answer.Tier == "" {
		ex.Answer.Tier, ex.Answer.TierReason = c.Tier, tierReason(c)
	}
	ex.Answer.Next = ex.describe(ctx, v, err)
	if err == nil && v.Passes() {
		ex.shadows = e.ShadowVerdicts().All()
	}
	return err == nil && v.Passes()
}

// describe describes a verdict. The error says why there is none.
func (ex *explainer) describe(ctx context.Context, v *enforce.Verdict, err error) operator.Forecast {
	switch {
	case v.Decision.Reason == engine.Abandoned:
		return operator.Forecast{Outcome: "failed", Status: http.StatusServiceUnavailable,
			Text: "that could not be found out in time"}
	case err != nil:
		return operator.Forecast{Outcome: "failed", Status: http.StatusInternalServerError,
			Text: "fails: " + err.Error()}
	case v.Exempt:
		ex.Answer.Exempt = true
		return operator.Forecast{Outcome: "exempt", Text: "passes: it is exempt"}
	case v.Outcome == enforce.AtSessions:
		return operator.Forecast{Outcome: "allowed",
			Text: "passes: rate_limit itself answers it, where clients earn sessions"}
	case v.Allowed && v.Passes():
		ex.explainLimits(ctx, &v.Shadows) // denials
		return operator.Forecast{Outcome: "allowed", Text: "passes: an operator allows it"}
	case v.Refuses() && v.Refusal.Reason == engine.Banned:
		return ex.describeBan(v)
	case v.Refuses() && v.RefusedBy != nil:
		return ex.refuses("denied", v.RefusedBy.Zone.Name, v.RefusedBy.Name, limiter.Never,
			"by zone "+v.RefusedBy.Zone.Name+", which admits nothing")
	}
	ex.explainLimits(ctx, &v.Charges)
	ex.explainLimits(ctx, &v.Shadows)
	switch {
	case v.Refuses():
		f := ex.refusedByDebit(v.Decision, v.Refusal.Policy, v.Refusal.Cost)
		if v.Outcome == enforce.Challenged {
			f.Text += ", with a challenge"
		}
		return f
	case v.Outcome == enforce.Denied:
		return operator.Forecast{Outcome: "denied", Status: v.Denial.Status, Text: "is denied: " + v.Denial.Text}
	case len(v.Debits) == 0 && len(v.Shadows.Debits) == 0:
		return operator.Forecast{Outcome: "allowed", Text: "passes: no limit is for it" + loadText(v)}
	case len(v.Debits) == 0:
		return operator.Forecast{Outcome: "allowed", Text: "passes: all limits for it are in shadow"}
	}
	return operator.Forecast{Outcome: "allowed", Text: "passes" + countsText(v) + loadText(v)}
}

// describeBan describes the refusal of a banned client.
func (ex *explainer) describeBan(v *enforce.Verdict) operator.Forecast {
	retry, why := v.Decision.Retry, "because the client is banned for what it did"
	switch {
	case v.Refusal.Policy == v.Handler.BannedByOperator:
		retry, why = v.Refusal.Retry, ex.bannedBy()
	case v.Trapped():
		why = "because it goes into a trap, which bans"
	}
	return ex.refuses("banned", enforce.BanName, enforce.BanName, retry, why)
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

// loadText describes how the forecast depends on the load: whether the request waits, which zones don't
// apply because the load is low, and how many requests may be in flight; or "".
func loadText(v *enforce.Verdict) (text string) {
	if v.Waits && v.Wait > 0 {
		text = "; it waits " + v.Wait.Round(time.Millisecond).String() + " for its units"
	} else if v.Waits {
		text = "; it waits for others"
	}
	for _, z := range v.Handler.Zones {
		if len(z.Fields) > 0 {
			text += "; zone " + z.Name + " reads the body, which isn't known here"
		}
		if len(z.When) == 0 && z.Concurrency == nil {
			continue
		}
		switch matches, err := z.Matchers.AnyMatchWithError(v.Http); {
		case !matches || err != nil:
		case !z.Applies(v.Handler.Config.Now()):
			text += "; zone " + z.Name + " doesn't apply, only when " + z.When[0].Text
		case z.Concurrency != nil:
			text += placesText(z)
		}
	}
	return text
}

// placesText describes how many requests may be in flight in a zone.
func placesText(z *enforce.Zone) string {
	if z.RefusesNothing {
		return ""
	}
	return fmt.Sprintf("; in zone %s, unless %d are under way", z.Name, z.Concurrency.Most)
}

// explainLimits adds the states of the limits that the request is charged to.
func (ex *explainer) explainLimits(ctx context.Context, c *enforce.Charges) {
	for i, p := range c.Policies {
		if len(ex.Answer.Limits) < maxExplained && p.ID != 0 && ex.isKnown(&c.Debits[i]) {
			ex.explainLimit(ctx, p, c.Debits[i])
		}
	}
}

// countsText describes which answers make the request use up units of some zones, or "".
func countsText(v *enforce.Verdict) (text string) {
	var last *enforce.Zone
	for _, p := range v.Policies {
		if z := p.Zone; z != last && z.Count != nil {
			text += "; in zone " + z.Name + " it counts only if it is answered with " +
				strings.Join(z.Count.Answers(), " or ")
			last = z
		}
	}
	return text
}

// isKnown reports whether the target determines a debit's key. A target that is only the name of an
// API key has no address to count by.
func (ex *explainer) isKnown(d *engine.Debit) bool {
	return ex.Kind == operator.Address || len(d.Key) > 0 && d.Key[0] != identity.TagUnknown
}
