package enforce

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// statusLeft is the status that reverse_proxy writes if the client left before an answer.
const statusLeft = 499

// Counts reports whether a request with a status counts. A nil Count counts all. Held units stay
// charged if the client left: otherwise clients could try without end by leaving early.
func (c *Count) Counts(status int) bool {
	return c == nil || c.Hold && status == statusLeft || slices.ContainsFunc(c.Status, func(counted int) bool { return caddyhttp.StatusCodeMatches(status, counted) })
}

// Answered reports whether an answer counts. A nil Count counts all.
func (c *Count) Answered(status int, header http.Header) bool {
	return c.Counts(status) || slices.ContainsFunc(c.When, func(a Answer) bool { return a.matches(status, header) })
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
