package tally

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Errors that a request is denied with for its API key or its tier. They are made
// once: caddyhttp.Error would look at the stack for every one.
var (
	errNoKey      = denial(http.StatusUnauthorized, "an API key is required")
	errUnknownKey = denial(http.StatusForbidden, "the API key is not known")
	errKeysAway   = denial(http.StatusServiceUnavailable, "the API keys can't be read at the moment")
	errTwoKeys    = denial(http.StatusBadRequest, "the request has two API keys")
	errOddKey     = denial(http.StatusBadRequest, "the API key is not a single token")
	errManyPairs  = denial(http.StatusBadRequest, "the request has too many parameters or cookies to look for an API key in")
	errNoTier     = denial(http.StatusForbidden, "the client has no tier")
)

func denial(status int, text string) error {
	return caddyhttp.HandlerError{StatusCode: status, Err: errors.New(text)}
}

// isDenial reports whether an error is one of those that a request is denied with.
func isDenial(err error) bool {
	return err == errNoKey || err == errUnknownKey || err == errKeysAway || err == errTwoKeys || err == errOddKey || err == errManyPairs || err == errNoTier
}
