package siteverify

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Defaults and bounds of [Options], and bounds of an answer and a token.
const (
	DefaultTimeout       = 3 * time.Second
	DefaultMaxAge        = 5 * time.Minute
	DefaultMaxConcurrent = 16

	maxAnswer = 16 << 10
	maxToken  = 8 << 10
	maxSkew   = time.Minute // between the service's clock and ours
)

// Options are the options of a [Client]. Service, Secret and SiteKey are required;
// the zero value of the others is usable.
type Options struct {
	Service Service
	Secret  string // our password at the service
	SiteKey string // the site's name in its widget

	// Action is the required purpose of tokens, for services that support it. Empty is any.
	Action string

	// MaxAge is the maximum age of a token. 0 is DefaultMaxAge.
	MaxAge time.Duration

	// Timeout bounds each of at most two attempts, and the wait before the first. 0 is DefaultTimeout.
	Timeout time.Duration

	// MaxConcurrent bounds the number of concurrent verifications. 0 is DefaultMaxConcurrent.
	MaxConcurrent int

	// Transport sends requests. nil is one of the client's own.
	Transport http.RoundTripper

	// Now returns the time. nil is time.Now.
	Now func() time.Time
}

// Client verifies tokens. It may be used from any number of goroutines.
type Client struct {
	o     Options
	http  *http.Client
	slots chan struct{} // holds a value for each verification under way
}

// New returns a client.
func New(o Options) (*Client, error) {
	if o.Service.dummies == nil {
		return nil, errors.New("siteverify: a service of ByName is required")
	}
	if err := errors.Join(o.Service.checkKey("the secret", o.Secret),
		o.Service.checkKey("the site key", o.SiteKey)); err != nil {
		return nil, err
	}
	if o.MaxAge < 0 || o.Timeout < 0 || o.MaxConcurrent < 0 {
		return nil, fmt.Errorf("siteverify: %s: max age, timeout and concurrency must not be below 0", o.Service.Name)
	}
	o = o.withDefaults()
	return &Client{o: o, http: newHTTP(o), slots: make(chan struct{}, o.MaxConcurrent)}, nil
}

func (o Options) withDefaults() Options {
	o.MaxAge = cmp.Or(o.MaxAge, DefaultMaxAge)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, DefaultMaxConcurrent)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // an answer is small
			MaxConnsPerHost:        o.MaxConcurrent,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: maxAnswer,
		}
	}
	return o
}

// newHTTP returns an HTTP client that follows no redirects.
func newHTTP(o Options) *http.Client {
	return &http.Client{
		Transport:     o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Service returns the service of the client.
func (c *Client) Service() Service { return c.o.Service }

// SiteKey returns the site's name in the widget.
func (c *Client) SiteKey() string { return c.o.SiteKey }

// Verify asks the service whether a token is genuine and from a page of a host. The host has no port. It returns after
// an answer, a timeout, or the end of ctx.
func (c *Client) Verify(ctx context.Context, token, host string) Result {
	if token == "" || len(token) > maxToken {
		return Result{Reason: Malformed}
	}
	if err := c.enter(ctx); err != nil {
		return Result{Busy, err}
	}
	defer func() { <-c.slots }()
	key := ""
	if c.o.Service.idempotent {
		key = newUUID()
	}
	a, result := c.ask(ctx, token, key)
	if result.Unavailable() && result.Reason != Misconfigured && key != "" && ctx.Err() == nil {
		a, result = c.ask(ctx, token, key)
	}
	if !result.Passed() {
		return result
	}
	return c.judge(a, host)
}

// enter waits until a verification may begin. The caller must leave.
func (c *Client) enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newUUID returns a random UUID (RFC 9562, section 5.4).
func newUUID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails: see crypto/rand
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
