package siteverify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	timeout       = 3 * time.Second // of each of at most two attempts, and of the wait before the first
	maxConcurrent = 16              // verifications
	maxAnswer     = 16 << 10
	maxToken      = 8 << 10
	maxAge        = 5 * time.Minute // of a token
	maxSkew       = time.Minute     // between the service's clock and ours
)

// Options are the options of a [Client]. All but Action are required.
type Options struct {
	Service Service // of [ByName]
	Secret  string  // our password at the service
	SiteKey string  // the site's name in its widget

	// Action is the required purpose of tokens, for services that support it. Empty is any.
	Action string
}

// Client verifies tokens. It may be used from any number of goroutines.
type Client struct {
	o       Options
	http    *http.Client
	slots   chan struct{} // holds a value for each verification under way
	timeout time.Duration
	now     func() time.Time
}

// New returns a client.
func New(o Options) (*Client, error) {
	if err := errors.Join(o.Service.checkKey("the secret", o.Secret),
		o.Service.checkKey("the site key", o.SiteKey)); err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // an answer is small
		MaxConnsPerHost:        maxConcurrent,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxAnswer,
	}
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		o: o, http: &http.Client{Transport: transport, CheckRedirect: noRedirects},
		slots: make(chan struct{}, maxConcurrent), timeout: timeout, now: time.Now,
	}, nil
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
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
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
