package httpfield

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The names of header fields, in Go's form: with these as keys a value can be put into an
// [net/http.Header] without a call to its methods.
const (
	Policy          = "Ratelimit-Policy"
	Limit           = "Ratelimit"
	LegacyLimit     = "X-Ratelimit-Limit"
	LegacyRemaining = "X-Ratelimit-Remaining"
	LegacyReset     = "X-Ratelimit-Reset"
	QuotaUsed       = "X-Quota-Used"
	QuotaLimit      = "X-Quota-Limit"
	QuotaReset      = "X-Quota-Reset"
	RetryAfter      = "Retry-After"
)

// CheckName returns an error if name can't be the name of a header field.
func CheckName(name string) error {
	odd := func(c rune) bool {
		return c > '~' || c <= ' ' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}
	if name == "" || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("must name a header field such as X-Api-Key, got %q", name)
	}
	return nil
}

// reserved are fields with a meaning of their own, which handlers and upstreams need as the client sent
// them, or which a proxy sets or removes itself.
var reserved = []string{
	"Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Content-Encoding", "Content-Length",
	"Content-Type", "Cookie", "Date", "Expect",
	"Forwarded", "Host", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since",
	"Max-Forwards", "Origin", "Range",
	"Referer", "User-Agent", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
}

// CheckOwn returns an error if name can't be the name of a request's field that is ours alone: clients'
// own fields of the name are removed.
func CheckOwn(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	isName := func(other string) bool { return strings.EqualFold(name, other) }
	if slices.ContainsFunc(reserved, isName) || isConnectionOption(name) || isName("Connection") ||
		isName("Proxy-Authorization") {
		return fmt.Errorf(
			"must name a field that means nothing else, such as X-Over-Limit, got %q, which clients or proxies use",
			name)
	}
	return nil
}

// connectionOptions are the options of Connection that HTTP itself has, which are also fields that belong
// to one connection.
var connectionOptions = []string{"Close", "Keep-Alive", "Upgrade", "TE", "Trailer", "Transfer-Encoding",
	"Proxy-Connection", "HTTP2-Settings"}

// KeepConnectionOptions removes all other options of a request's Connection field. A proxy removes the
// fields that it names (RFC 9110, section 7.6.1), so a client could remove what a handler has set, or
// have a field counted that the upstream doesn't get.
func KeepConnectionOptions(h http.Header) {
	lines := h["Connection"]
	if !slices.ContainsFunc(lines, namesFields) {
		return
	}
	var kept []string
	for _, line := range lines {
		for option := range strings.SplitSeq(line, ",") {
			if isConnectionOption(option) {
				kept = append(kept, strings.TrimSpace(option))
			}
		}
	}
	if delete(h, "Connection"); len(kept) > 0 {
		h["Connection"] = []string{strings.Join(kept, ", ")}
	}
}

// namesFields reports whether a line of Connection has more than HTTP's own options.
func namesFields(line string) bool {
	for option := range strings.SplitSeq(line, ",") {
		if !isConnectionOption(option) && strings.TrimSpace(option) != "" {
			return true
		}
	}
	return false
}

func isConnectionOption(option string) bool {
	option = strings.TrimSpace(option)
	return slices.ContainsFunc(connectionOptions, func(name string) bool { return strings.EqualFold(name, option) })
}

// DeleteTwins removes the fields of a name, also those that CGI can't tell from them, such as
// X_Over_Limit for X-Over-Limit.
func DeleteTwins(h http.Header, name string) {
	delete(h, name)
	for other := range h {
		if strings.ContainsRune(other, '_') &&
			strings.EqualFold(strings.ReplaceAll(other, "_", "-"), strings.ReplaceAll(name, "_", "-")) {
			delete(h, other)
		}
	}
}
