package enforce

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// answerWriter is the writer of later handlers. Just before they write the header of the answer, it
// settles what awaits the status, and sets our header fields again, which an upstream may have set.
type answerWriter struct {
	caddyhttp.ResponseWriterWrapper
	response *Response // nil if nothing is said about limits, or an earlier handler has set them
	pending  *pending  // nil if nothing awaits the status
}

// serveNext calls the next handler for a request that may pass. What is said about limits and what
// awaits the status may be nil.
func serveNext(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, response *Response, pending *pending) error {
	if response != nil {
		response.setFields(w.Header())
	}
	var out *answerWriter
	switch {
	case response != nil && response.out.ResponseWriter == nil:
		out = &response.out
		out.response = response
	case pending != nil:
		out = &pending.out
	default:
		return next.ServeHTTP(w, r)
	}
	out.ResponseWriter, out.pending = w, pending
	return pending.serve(out, r, next)
}

// header is called before a status is written.
func (w *answerWriter) header(status int) {
	if isFinal(status) {
		w.pending.Settle(status, w.Header())
	}
	if w.response != nil {
		w.response.restore(status)
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
	return w.ResponseWriter.Write(data)
}

// ReadFrom implements io.ReaderFrom.
func (w *answerWriter) ReadFrom(r io.Reader) (int64, error) {
	w.header(http.StatusOK)
	return w.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError is what http.ResponseController flushes with.
func (w *answerWriter) FlushError() error {
	w.header(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker. Whoever takes over the connection switches protocols.
func (w *answerWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.pending.Settle(http.StatusSwitchingProtocols, w.Header())
	}
	return conn, buffered, err
}

// isFinal reports whether a status is that of an answer, and not of one that comes before it.
func isFinal(status int) bool { return status >= 200 || status == http.StatusSwitchingProtocols }
