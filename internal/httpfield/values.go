package httpfield

import (
	"fmt"
	"strings"
	"time"
)

// Seconds returns a duration in whole seconds, rounded up.
func Seconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

// String writes a string as structured fields do (RFC 9651, section 3.3.3). It percent-encodes
// characters that such a string can't contain.
func String(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"', c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20, c > 0x7e:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// TrimSpace removes the white space that HTTP allows around a value (RFC 9110, section
// 5.6.3).
func TrimSpace(value string) string { return strings.Trim(value, " \t") }

// IsToken reports whether a value is a token68, as credentials are (RFC 9110, section
// 11.2).
func IsToken(value string) bool {
	value = strings.TrimRight(value, "=")
	for i := range len(value) {
		if !IsTokenByte(value[i]) {
			return false
		}
	}
	return value != ""
}

// IsTokenByte reports whether a token68 may contain c, `=` at its end aside.
func IsTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~+/", c) >= 0
}
