package handlertest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/report"
)

// Hour is a window of an hour.
const Hour = caddy.Duration(time.Hour)

// Counting returns a handler with a zone that counts some statuses.
func Counting(t testing.TB, amount int64, hold bool, statuses ...int) *enforce.Handler {
	return Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
		Name: "z", Limits: []config.Limit{{Amount: amount, Window: Hour}}, Count: &config.Count{Status: statuses, Hold: hold},
	}}})
}

// Ask sends a request to h, followed by another handler, and returns the answer.
func Ask(ctx context.Context, h *enforce.Handler, next caddyhttp.HandlerFunc) (w *Recorder, err error) {
	return AskWith(ctx, h, nil, next)
}

// AskWith is Ask with a body.
func AskWith(ctx context.Context, h *enforce.Handler, body io.Reader, next caddyhttp.HandlerFunc) (w *Recorder, err error) {
	return AskAs(ctx, h, "192.0.2.1", body, next)
}

// AskAs is AskWith for a client, by its address.
func AskAs(ctx context.Context, h *enforce.Handler, client string, body io.Reader, next caddyhttp.HandlerFunc) (w *Recorder, err error) {
	w = &Recorder{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://example.com/login", body)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, client)
	err = h.ServeHTTP(w, r, next)
	return w, err
}

// Recorder is a recorder of an answer that supports hijacking.
type Recorder struct{ *httptest.ResponseRecorder }

// Hijack implements http.Hijacker.
func (h *Recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	ours, _ := net.Pipe()
	return ours, nil, ours.Close()
}

// Answering returns a handler that writes statuses.
func Answering(statuses ...int) caddyhttp.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) error {
		for _, status := range statuses {
			w.WriteHeader(status)
		}
		return nil
	}
}

// Failing returns a handler that returns an error.
func Failing(err error) caddyhttp.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) error { return err }
}

// IsRefused reports whether the result of Ask is a refusal.
func IsRefused(w *Recorder, err error) bool {
	return err != nil || w.Code == http.StatusTooManyRequests
}

// PassedOf returns how many of n requests pass a handler that counts status 401.
func PassedOf(h *enforce.Handler, n int) (passed int) { return PassedAs(h, "192.0.2.1", n) }

// PassedAs is PassedOf for a client, by its address.
func PassedAs(h *enforce.Handler, client string, n int) (passed int) {
	for range n {
		if w, err := AskAs(context.Background(), h, client, nil, Answering(401)); err == nil && w.Code == 401 {
			passed++
		}
	}
	return passed
}

// Request returns Caddy's form of a request for a target, byte by byte.
func Request(t testing.TB, method, target string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: example.com\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
}

// StatusOf returns the status of a handler's error, or 0.
func StatusOf(err error) int {
	failed, _ := errors.AsType[caddyhttp.HandlerError](err)
	return failed.StatusCode
}

// ResponseVar is the request variable that holds the response.
const ResponseVar = "rate_limit.response"

// Browser is a browser's User-Agent.
const Browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"

// Get makes a handler answer a browser's request for a path, by a client's address, with header fields. next
// handles it if it passes.
func Get(h *enforce.Handler, path, client string, next caddyhttp.HandlerFunc, fields ...string) (*http.Request, *httptest.ResponseRecorder, error) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://example.com"+path, nil)
	r.Header.Set("User-Agent", Browser)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, client)
	err := h.ServeHTTP(w, r, next)
	return r, w, err
}

// ReferenceOf returns the reference of a refused request.
func ReferenceOf(r *http.Request) string {
	return r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).ReplaceAll("{http.rate_limit.exceeded.id}", "")
}

// LogDecisions has a handler with a decision log write to another one.
func LogDecisions(h *enforce.Handler, to *zap.Logger) {
	h.Config.Reporter.(*report.Reporter).Decisions.Log = to
}
