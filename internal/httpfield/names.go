package httpfield

import (
	"fmt"
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
