package settle

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// Count selects the answers that count.
type Count struct {
	Status   []int    // status codes, or first digits of them
	When     []Answer // alternatives to Status; known once the answer's header is
	Hold     bool     // units are held until the answer is known
	ReadBody int64    // bytes of the body to read first; 0 for none
}

// Answer describes answers. An answer must match all of its fields.
type Answer struct {
	caddyhttp.ResponseMatcher
	MinSize, MaxSize int64  // of the content, in bytes; 0 for no bound
	GRPC             []int  // statuses of gRPC; nil for any answer
	Text             string // as in a Caddyfile
}

// matches reports whether an answer matches. An answer without a Content-Length may have any size: a
// client could otherwise choose, by what it accepts, that its requests don't count.
func (a *Answer) matches(status int, header http.Header) bool {
	size, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if err == nil && (size < a.MinSize || a.MaxSize > 0 && size > a.MaxSize) {
		return false
	}
	return a.Match(status, header) && (a.GRPC == nil || slices.Contains(a.GRPC, httpfield.GRPCStatusOf(header)))
}

// statusLeft is the status that reverse_proxy writes if the client left before an answer.
const statusLeft = 499

// Counts reports whether a request with a status counts. A nil Count counts all. Held units stay
// charged if the client left: otherwise clients could try without end by leaving early.
func (c *Count) Counts(status int) bool {
	return c == nil || c.Hold && status == statusLeft ||
		slices.ContainsFunc(c.Status, func(counted int) bool { return caddyhttp.StatusCodeMatches(status, counted) })
}

// answered reports whether an answer counts. A nil Count counts all.
func (c *Count) answered(status int, header http.Header) bool {
	return c.Counts(status) || slices.ContainsFunc(c.When, func(a Answer) bool { return a.matches(status, header) })
}

// inTrailers reports whether an answer must have ended before it is known whether it counts: gRPC sends its
// status last. Then the statuses of HTTP are waited with too.
func (c *Count) inTrailers() bool {
	return c != nil && slices.ContainsFunc(c.When, func(a Answer) bool { return a.GRPC != nil })
}

// AnsweredAlike reports whether an answer with a status may count. Logs lack the other criteria. A
// nil Count counts all.
func (c *Count) AnsweredAlike(status int) bool {
	return c.Counts(status) || slices.ContainsFunc(c.When, func(a Answer) bool {
		return caddyhttp.ResponseMatcher{StatusCode: a.StatusCode}.Match(status, nil)
	})
}

// StatusText returns a status, or a class of them, as written in a Caddyfile.
func StatusText(status int) string {
	if status < 10 {
		return strconv.Itoa(status) + "xx"
	}
	return strconv.Itoa(status)
}

// String returns the statuses as written in a Caddyfile.
func (c *Count) String() string { return strings.Join(c.statuses(), " ") }

func (c *Count) statuses() []string {
	words := make([]string, len(c.Status))
	for i, status := range c.Status {
		words[i] = StatusText(status)
	}
	return words
}

// Answers returns the answers that count, each as written in a Caddyfile.
func (c *Count) Answers() []string {
	words := c.statuses()
	for _, a := range c.When {
		words = append(words, a.Text)
	}
	return words
}
