package tally

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// What a zone can be counted per.
const (
	perIP       = "ip"
	perEveryone = "everyone"
	perKey      = "key"
	perClient   = "client"
	perAPIKey   = "api_key"
)

// What can be done about an empty key.
const (
	emptyIP    = "ip"
	emptyShare = "share"
	emptySkip  = "skip"
	emptyDeny  = "deny"
)

// countsClients reports whether the zone counts single clients, and not something that
// different people can share.
func (z *zone) countsClients() bool { return z.per == perClient || z.per == perAPIKey }

// statusOf returns the status of an answer that a handler leaves to Caddy: that of the error that
// it returns, or 200.
func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	if failed, ok := errors.AsType[caddyhttp.HandlerError](err); ok && failed.StatusCode != 0 {
		return failed.StatusCode
	}
	return http.StatusInternalServerError
}

// statusLeft is what reverse_proxy writes where the client has left before there was an answer.
const statusLeft = 499

// counts reports whether a request with a status counts. Nil counts all. What was held stays where
// the client has left: otherwise anybody could try without end by leaving early.
func (c *countRule) counts(status int) bool {
	return c == nil || c.Hold && status == statusLeft || slices.ContainsFunc(c.Status, func(counted int) bool { return caddyhttp.StatusCodeMatches(status, counted) })
}

// statusText returns a status, or a class of them, as a Caddyfile has it.
func statusText(status int) string {
	if status < 10 {
		return strconv.Itoa(status) + "xx"
	}
	return strconv.Itoa(status)
}

// String returns the statuses as a Caddyfile has them.
func (c *countRule) String() string {
	words := make([]string, len(c.Status))
	for i, status := range c.Status {
		words[i] = statusText(status)
	}
	return strings.Join(words, " ")
}
