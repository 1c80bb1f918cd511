package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Remote is the [Service] of a running Caddy, through its admin endpoint.
type Remote struct {
	address string // for messages
	origin  string // beginning of URLs
	crosses bool   // the endpoint is on TCP and requires an Origin
	http    *http.Client
}

// maxAnswer bounds the size of an answer, in bytes.
const maxAnswer = 16 << 20

// answerTimeout is how long an answer may take. Streams have no bound.
const answerTimeout = 30 * time.Second

// NewRemote returns the service of the Caddy with an admin endpoint on a network, tcp or unix, at
// an address: host:port or the path of a socket. It connects with each call.
func NewRemote(network, address string) *Remote {
	r := &Remote{address: address, origin: "http://" + address, crosses: true}
	if network == "unix" {
		r.origin, r.crosses = "http://127.0.0.1", false // Caddy accepts this host
	}
	dialer := new(net.Dialer)
	r.http = &http.Client{
		Transport: &http.Transport{ // no proxy, regardless of the environment
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, address)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return r
}

// Status implements [Service].
func (r *Remote) Status(ctx context.Context) (Status, error) {
	return ask[Status](ctx, r, "status", nil)
}

// Zones implements [Service].
func (r *Remote) Zones(ctx context.Context) ([]Zone, error) { return ask[[]Zone](ctx, r, "zones", nil) }

// Keys implements [Service].
func (r *Remote) Keys(ctx context.Context, q KeysQuery) ([]Key, error) {
	if q.Blocked {
		return ask[[]Key](ctx, r, "blocked", q.params())
	}
	return ask[[]Key](ctx, r, "top", q.params())
}

// Bans implements [Service].
func (r *Remote) Bans(ctx context.Context) ([]Rule, error) { return ask[[]Rule](ctx, r, "bans", nil) }

// Refusals implements [Service].
func (r *Remote) Refusals(ctx context.Context, q RefusalsQuery) (Refusals, error) {
	if q.Client != "" || q.Text != "" {
		return tell[Refusals](ctx, r, "refusals/search", q)
	}
	return ask[Refusals](ctx, r, "refusals", q.params())
}

// History implements [Service].
func (r *Remote) History(ctx context.Context, q HistoryQuery) (History, error) {
	return ask[History](ctx, r, "history", q.params())
}

// Usage implements [Service].
func (r *Remote) Usage(ctx context.Context, q UsageQuery) (Usage, error) {
	return tell[Usage](ctx, r, "usage", q)
}

// Audit implements [Service].
func (r *Remote) Audit(ctx context.Context, q AuditQuery) ([]Act, error) {
	if q.Client != "" {
		return tell[[]Act](ctx, r, "audit/client", q)
	}
	return ask[[]Act](ctx, r, "audit", q.params())
}

// Explain implements [Service].
func (r *Remote) Explain(ctx context.Context, q Question) (Explanation, error) {
	return tell[Explanation](ctx, r, "explain", q)
}

// Do implements [Service].
func (r *Remote) Do(ctx context.Context, action Action, o Command) (Done, error) {
	return tell[Done](ctx, r, string(action), o)
}

// TestNotify implements [Service].
func (r *Remote) TestNotify(ctx context.Context) ([]Notified, error) {
	return tell[[]Notified](ctx, r, "notify/test", none{})
}

// Import implements [Service].
func (r *Remote) Import(ctx context.Context, i Import) (Done, error) {
	return tell[Done](ctx, r, "import", i)
}

// Reveal implements [Service]. The audit's actor is "admin".
func (r *Remote) Reveal(ctx context.Context, _, list string) error {
	_, err := tell[revelation](ctx, r, "reveal", revelation{list})
	return err
}

// ask returns the answer to a GET.
func ask[Out any](ctx context.Context, r *Remote, name string, query []param) (out Out, err error) {
	err = r.exchange(ctx, http.MethodGet, name, queryOf(query), nil, &out)
	return out, err
}

// tell returns the answer to a POST.
func tell[Out any](ctx context.Context, r *Remote, name string, in any) (out Out, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("%s: %w", name, err)
	}
	err = r.exchange(ctx, http.MethodPost, name, nil, body, &out)
	return out, err
}

// exchange sends a request and reads its answer.
func (r *Remote) exchange(ctx context.Context, method, name string, query url.Values, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	response, err := r.send(ctx, method, name, query, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := r.read(response)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return r.strange(response, err)
	}
	return nil
}

// send returns the response to a request, or an error unless its status is 200.
func (r *Remote) send(ctx context.Context, method, name string, query url.Values, body []byte) (*http.Response, error) {
	target := r.origin + Root + name
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the address %q of the admin endpoint can't be used: %w", r.address, err)
	}
	if r.crosses {
		request.Header.Set("Origin", r.origin)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := r.http.Do(request)
	if err != nil {
		return nil, r.unreachable(ctx, err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, r.failure(response)
	}
	return response, nil
}

// read returns a body of bounded length.
func (r *Remote) read(response *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, r.strange(response, err)
	case len(body) > maxAnswer:
		return nil, r.strange(response, fmt.Errorf("it has more than %d bytes", maxAnswer))
	}
	return body, nil
}

// failure returns the error in a response.
func (r *Remote) failure(response *http.Response) error {
	body, err := r.read(response)
	if err != nil {
		return err
	}
	answer := new(Error)
	if json.Unmarshal(body, answer) == nil && answer.Message != "" {
		if answer.Status == 0 { // from Caddy itself
			return fmt.Errorf("the Caddy at %s refuses this: %s", r.address, answer.Message)
		}
		return answer
	}
	return r.strange(response, nil)
}

// unreachable returns the error for a request without an answer.
func (r *Remote) unreachable(ctx context.Context, err error) error {
	var network *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s gives no answer: is it Caddy's admin endpoint?", r.address)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the admin endpoint %s can't be used: %w: run this as a user who may use it", r.address, err)
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Errorf("no Caddy can be asked at %s: %w: start Caddy, or name its admin endpoint with --address or --config; with `admin off` no command can ask it, but its rules file works: a line such as ban 203.0.113.9 holds within a second", r.address, network.Err)
	}
	return fmt.Errorf("%s can't be asked: %w: is it Caddy's admin endpoint?", r.address, err)
}

// strange returns the error for an answer that a handler of [NewHandler] doesn't give.
func (r *Remote) strange(response *http.Response, err error) error {
	if err == nil {
		err = fmt.Errorf("its status is %d", response.StatusCode)
	}
	return fmt.Errorf(
		"the answer of %s can't be understood: %w: is it the admin endpoint of a Caddy with this rate limiter?",
		r.address, err)
}

var _ Service = (*Remote)(nil)
