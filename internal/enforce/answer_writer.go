package enforce

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// passage holds the state that a passing request carries to later handlers.
type passage struct {
	response *Response       // header fields about limits; or nil
	pending  *settle.Pending // units that await the status; or nil
	timing   *timing         // until the answer begins; or nil
	empty    []*LateName     // placeholders to check again when the request returns
	places   []place         // places to leave when the request returns
}

// answerWriter is the writer that later handlers get. Just before they write the header of the
// answer, it settles the units that await the status. It also sets our header fields again, because
// an upstream may have set its own.
type answerWriter struct {
	caddyhttp.ResponseWriterWrapper
	passage // response is nil if an earlier handler set the fields
}

// serve calls the next handler.
func (p passage) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if p.places != nil {
		defer leave(p.places)
	}
	if p.response != nil {
		p.response.setFields(w.Header())
	}
	var out *answerWriter
	switch {
	case p.response != nil && p.response.out.ResponseWriter == nil:
		out = &p.response.out
	case p.pending != nil:
		out, p.response = new(answerWriter), nil
	case p.timing != nil:
		out, p.response = new(answerWriter), nil
	default:
		return next.ServeHTTP(w, r)
	}
	out.ResponseWriter, out.passage = w, p
	p.timing.watch(r)
	defer p.timing.end()
	return p.pending.Serve(out, r, next)
}

// header is called before a status is written.
func (w *answerWriter) header(status int) {
	if isFinal(status) {
		w.timing.end()
		w.pending.Listen()
		w.pending.Settle(status, w.Header())
	}
	if w.response != nil {
		w.response.restore(status, w.ResponseWriter)
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *answerWriter) WriteHeader(status int) {
	w.header(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *answerWriter) Write(data []byte) (int, error) {
	w.header(http.StatusOK)
	n, err := w.ResponseWriter.Write(data)
	w.pending.Wrote(int64(n))
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (w *answerWriter) ReadFrom(r io.Reader) (int64, error) {
	w.header(http.StatusOK)
	n, err := w.ResponseWriterWrapper.ReadFrom(r)
	w.pending.Wrote(n)
	return n, err
}

// FlushError implements the flushing of http.ResponseController.
func (w *answerWriter) FlushError() error {
	w.header(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker. A handler hijacks a connection to switch protocols.
func (w *answerWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.timing.end()
		w.pending.Settle(http.StatusSwitchingProtocols, w.Header())
		conn = w.pending.CountBytes(conn)
	}
	return conn, buffered, err
}

// isFinal reports whether a status is final rather than informational (1xx).
func isFinal(status int) bool { return status >= 200 || status == http.StatusSwitchingProtocols }
