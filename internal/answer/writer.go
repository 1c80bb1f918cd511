package answer

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/caddy-tally/caddy-tally/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Passage is what a passing request carries to later handlers for its answer.
type Passage struct {
	Response *Response       // header fields about limits; or nil
	Pending  *settle.Pending // units that await the status; or nil
	Timing   *load.Timing    // until the answer begins; or nil
}

// writer is the writer that later handlers get. Just before they write the header of the
// answer, it settles the units that await the status. It also sets our header fields again, because
// an upstream may have set its own.
type writer struct {
	caddyhttp.ResponseWriterWrapper
	Passage // Response is nil if an earlier handler set the fields
}

// Serve calls the next handler.
func (p Passage) Serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if p.Response != nil {
		p.Response.setFields(w.Header())
	}
	var out *writer
	switch {
	case p.Response != nil && p.Response.out.ResponseWriter == nil:
		out = &p.Response.out
	case p.Pending != nil || p.Timing != nil:
		out, p.Response = new(writer), nil
	default:
		return next.ServeHTTP(w, r)
	}
	out.ResponseWriter, out.Passage = w, p
	p.Timing.Watch(r)
	defer p.Timing.End()
	return p.Pending.Serve(out, r, next)
}

// header is called before a status is written.
func (w *writer) header(status int) {
	if isFinal(status) {
		w.Timing.End()
		w.Pending.Listen(w.Header())
		w.Pending.Settle(status, w.Header())
	}
	if w.Response != nil {
		w.Response.restore(status, w.ResponseWriter)
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	w.header(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(data []byte) (int, error) {
	w.header(http.StatusOK)
	w.Pending.Saw(data)
	n, err := w.ResponseWriter.Write(data)
	w.Pending.Wrote(int64(n))
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	w.header(http.StatusOK)
	n, err := w.ResponseWriterWrapper.ReadFrom(w.Pending.Watch(r))
	w.Pending.Wrote(n)
	return n, err
}

// FlushError implements the flushing of http.ResponseController.
func (w *writer) FlushError() error {
	w.header(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker. A handler hijacks a connection to switch protocols.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.Timing.End()
		w.Pending.Settle(http.StatusSwitchingProtocols, w.Header())
		conn = w.Pending.CountBytes(conn)
	}
	return conn, buffered, err
}

// isFinal reports whether a status is final rather than informational (1xx).
func isFinal(status int) bool { return status >= 200 || status == http.StatusSwitchingProtocols }
