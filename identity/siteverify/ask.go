package siteverify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// answer has the common fields of all services.
type answer struct {
	Success  bool     `json:"success"`
	Time     string   `json:"challenge_ts"`
	Hostname string   `json:"hostname"`
	Action   string   `json:"action"`
	Codes    []string `json:"error-codes"`
}

// ask sends a token to the service. The result is OK if the token is genuine, for any site and time.
func (c *Client) ask(ctx context.Context, token, idempotencyKey string) (answer, Result) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	response, err := c.post(ctx, token, idempotencyKey)
	if err != nil {
		return answer{}, Result{Unreachable, err}
	}
	defer response.Body.Close()
	return read(response)
}

func (c *Client) post(ctx context.Context, token, idempotencyKey string) (*http.Response, error) {
	form := url.Values{"secret": {c.o.Secret}, "response": {token}}
	if c.o.Service.checksKey {
		form.Set("sitekey", c.o.SiteKey)
	}
	if idempotencyKey != "" {
		form.Set("idempotency_key", idempotencyKey)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.Service.Endpoint,
		strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return c.http.Do(request)
}

// read reads the service's answer. An error status with a reason is an answer as well.
func read(response *http.Response) (answer, Result) {
	var a answer
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return a, Result{Unreachable, err}
	case len(body) > maxAnswer:
		return a, Result{Unreadable, fmt.Errorf("an answer of more than %d bytes", maxAnswer)}
	}
	if err := json.Unmarshal(body, &a); err != nil || response.StatusCode != http.StatusOK &&
		(a.Success || len(a.Codes) == 0) {
		return a, Result{Unreadable, errors.Join(fmt.Errorf("status %d", response.StatusCode), err)}
	}
	return a, a.verdict()
}

// verdict interprets the service's answer.
func (a answer) verdict() Result {
	if a.Success && len(a.Codes) == 0 {
		return Result{Reason: OK}
	}
	err := fmt.Errorf("error codes %.200q", a.Codes)
	switch {
	case a.has("missing-input-secret", "invalid-input-secret", "sitekey-secret-mismatch", "not-using-dummy-secret"):
		return Result{Misconfigured, err}
	case a.has("internal-error"):
		return Result{Unreachable, err}
	}
	return Result{Refused, err}
}

func (a answer) has(codes ...string) bool {
	return slices.ContainsFunc(a.Codes, func(code string) bool { return slices.Contains(codes, code) })
}

// judge reports whether a genuine token is for this site, action and time.
func (c *Client) judge(a answer, host string) Result {
	if !strings.EqualFold(a.Hostname, host) || host == "" {
		return Result{WrongHost, fmt.Errorf("earned on %.100q", a.Hostname)}
	}
	if c.o.Service.acts && c.o.Action != "" && a.Action != c.o.Action {
		return Result{WrongAct, fmt.Errorf("earned for %.100q", a.Action)}
	}
	earned, err := time.Parse(time.RFC3339, a.Time)
	if err != nil {
		return Result{TooOld, fmt.Errorf("earned at %.100q", a.Time)}
	}
	if age := c.now().Sub(earned); age > maxAge || age < -maxSkew {
		return Result{TooOld, fmt.Errorf("earned %v ago", age)}
	}
	return Result{Reason: OK}
}
