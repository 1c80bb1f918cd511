package answer

import (
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// say sends a short answer. Clients of gRPC would take a status of HTTP for a fault, and retry at once.
func (o *Options) say(w http.ResponseWriter, r *http.Request, a *Short, values *[3]string) error {
	sent := r
	if original := matcher.Original(r); original != nil {
		sent = original // a proxy's question may be rewritten to the call that it is about
	}
	if o.GRPC && httpfield.IsGRPC(r, sent.Method) {
		w = translate(w, a)
	}
	return a.Write(w, r, values)
}

// translate makes the server's own writer send an answer as one of gRPC. All handlers, the access log and Caddy's
// metrics see the status of HTTP: 200 means to them that the request may pass (decision 157).
func translate(w http.ResponseWriter, a *Short) http.ResponseWriter {
	out := &grpcWriter{answer: a}
	below := routing.ServersWriter(w)
	if below == nil {
		out.ResponseWriter = w
		return out
	}
	out.ResponseWriter, *below = *below, out
	return w
}

// grpcWriter sends an answer as trailers only, once it is written.
type grpcWriter struct {
	caddyhttp.ResponseWriterWrapper
	answer *Short
	sent   bool
}

// WriteHeader implements http.ResponseWriter.
func (w *grpcWriter) WriteHeader(status int) {
	switch {
	case w.sent:
	case status == w.answer.status:
		w.sent = true
		httpfield.WriteGRPC(w.ResponseWriter, w.answer.grpc, w.answer.line)
	default:
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *grpcWriter) Write(data []byte) (int, error) {
	if w.sent {
		return len(data), nil
	}
	return w.ResponseWriter.Write(data)
}

// ReadFrom implements io.ReaderFrom.
func (w *grpcWriter) ReadFrom(r io.Reader) (int64, error) {
	if w.sent {
		return io.Copy(io.Discard, r)
	}
	return w.ResponseWriterWrapper.ReadFrom(r)
}
