package enforce

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/endpoint"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// Find returns the API key of a request, or "" if it has none. It returns a denial if an upstream
// might find another key, or a key where Find sees none.
func (a *APIKeys) Find(r *http.Request, repl *caddy.Replacer) (string, *answer.Denial) {
	var s keySearch
	for i := range a.From {
		s.look(r, repl, &a.From[i])
	}
	return s.key, s.denied
}

// keySearch collects the values found in the places of keys. Upstreams parse more leniently in many
// ways, so it finds every value that one of them could take for a key.
type keySearch struct {
	key    string
	here   int // number of values in the current place
	denied *answer.Denial
}

func (s *keySearch) look(r *http.Request, repl *caddy.Replacer, place *KeySource) {
	s.here = 0
	switch place.Kind {
	case FromHeader:
		s.header(r.Header[http.CanonicalHeaderKey(place.In)])
	case FromBearer:
		s.bearer(r.Header["Authorization"])
	case FromQuery:
		s.query(r.URL.RawQuery, place.Parameter)
	case FromCookie:
		s.cookies(r.Header["Cookie"], place.Parameter)
	default:
		s.found(repl.ReplaceAll(place.In, ""))
	}
}

// found notes a value in the current place. White space around it isn't part of it (RFC 9110,
// section 5.5), but over HTTP/2 nothing has removed it yet.
func (s *keySearch) found(value string) {
	value = httpfield.TrimSpace(value)
	s.here++
	switch {
	case s.here > 1 || s.key != "" && value != "" && value != s.key:
		s.denied = TwoKeys
	case value != "" && !httpfield.IsToken(value) && s.denied == nil:
		s.denied = OddKey
	case value != "":
		s.key = value
	}
}

// header searches the fields of a name. Caddy drops fields whose names differ only in underscores
// or dots, because CGI and its successors treat them as the same name.
func (s *keySearch) header(values []string) {
	for _, value := range values {
		s.found(value)
	}
}

// bearer looks for a token after the scheme (RFC 9110, section 11.4). It refuses values that only
// resemble one, because some upstreams look for the word anywhere.
func (s *keySearch) bearer(values []string) {
	for _, value := range values {
		value = httpfield.TrimSpace(value)
		scheme, token := value, ""
		if i := strings.IndexAny(value, " \t"); i >= 0 {
			scheme, token = value[:i], value[i:]
		}
		switch {
		case len(values) > 1:
			s.denied = TwoKeys
		case strings.EqualFold(scheme, "Bearer"):
			s.found(token)
		case mentionsBearer(value) && s.denied == nil:
			s.denied = OddKey
		}
	}
}

// mentionsBearer reports whether a value contains a word that begins with "bearer".
func mentionsBearer(value string) bool {
	const word = "bearer"
	value = strings.ToLower(value)
	for {
		i := strings.Index(value, word)
		if i < 0 {
			return false
		}
		if i == 0 || !httpfield.IsTokenByte(value[i-1]) {
			return true
		}
		value = value[i+len(word):]
	}
}

// query searches the raw query, because Go omits pairs that it can't decode.
func (s *keySearch) query(raw string, name endpoint.Name) {
	s.pairs(raw, [2]byte{'&', ';'}, name, unescapeQuery)
}

func unescapeQuery(text string) string {
	if unescaped, err := url.QueryUnescape(text); err == nil {
		return unescaped
	}
	return text
}

// cookies searches all cookies. Caddy's placeholder holds only the first of a name.
func (s *keySearch) cookies(fields []string, name endpoint.Name) {
	for _, field := range fields {
		s.pairs(field, [2]byte{';', ','}, name, func(text string) string {
			text = httpfield.TrimSpace(text)
			if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' { // RFC 6265, section 4.1.1
				return text[1 : len(text)-1]
			}
			return text
		})
	}
}

// mostPairs bounds how many pairs of a query or a cookie are examined. Upstreams stop at some
// number, such as 1000 in PHP and Node.js, and might not find a later key.
const mostPairs = 1000

// pairs searches name-value pairs that are separated by either of two separators. Some upstreams
// ignore a `=` or `?` before a name.
func (s *keySearch) pairs(text string, separators [2]byte, name endpoint.Name, decode func(string) string) {
	from, pairs := 0, 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && text[i] != separators[0] && text[i] != separators[1] {
			continue
		}
		pair := strings.TrimLeft(text[from:i], "=?")
		from = i + 1
		if pair == "" {
			continue
		}
		if pairs++; pairs > mostPairs {
			s.denied = ManyPairs
			return
		}
		if before, value, ok := strings.Cut(pair, "="); ok && name.MayBe(httpfield.TrimSpace(before)) {
			s.found(decode(value))
		}
	}
}
