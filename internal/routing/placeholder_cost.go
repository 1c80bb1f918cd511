package routing

import "slices"

// The names of the placeholders without a bound. Caddy reads the whole body for them, into memory
// and again each time. The values of all others are bounded: by the header of a request (URI,
// header fields, cookies, user and what regular expressions find in them), of an answer, or of a
// handshake (certificates), by the config (environment, system, vars, map), or by Caddy (a file's
// first MiB). They are made when an option is evaluated, mostly once for a request, and kept no
// longer.
const (
	Body       = "http.request.body"
	BodyBase64 = "http.request.body_base64"
)

// fleeting are placeholders that change with each request or connection, so that limits per such a
// key are never reached.
var fleeting = []string{
	"http.request.remote", "http.request.remote.port", "http.request.uuid", "http.request.duration",
	"http.request.duration_ms",
	"http.error.id", "http.error.trace", "http.time_until_shutdown",
	"time.now", "time.now.common_log", "time.now.http", "time.now.rfc3339", "time.now.unix", "time.now.unix_ms",
}

// IsFleeting reports whether each request or connection has another value of a placeholder.
func IsFleeting(name string) bool { return slices.Contains(fleeting, name) }
