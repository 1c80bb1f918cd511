package challenge

import (
	"encoding/hex"
	"net/url"
	"strings"
)

// MaxTarget is the maximum length of a target, in bytes.
const MaxTarget = 2048

// Target returns the target if it is on this very site, otherwise "/". A target is a path with an optional query, as in
// a request line. Target refuses texts that a browser, a proxy or an application could take for an address elsewhere:
// other schemes and hosts, paths that begin with two slashes after decoding or cleaning, backslashes, control
// characters, spaces and characters outside ASCII.
func Target(text string) string {
	if len(text) > MaxTarget || !strings.HasPrefix(text, "/") || strings.ContainsFunc(text, unfit) {
		return "/"
	}
	path, _, _ := strings.Cut(text, "?")
	if _, err := url.ParseRequestURI(text); err != nil || !staysHere(path) {
		return "/"
	}
	return text
}

// unfit reports whether a character doesn't belong in a request line, or is interpreted differently by browsers.
func unfit(c rune) bool { return c <= ' ' || c > '~' || c == '\\' || c == '#' }

// maxDecodings is how often a text may be percent-encoded. Honest addresses are not encoded more often.
const maxDecodings = 4

// staysHere reports whether a path remains a path of this site, however often it is decoded.
func staysHere(raw string) bool {
	for range maxDecodings {
		if strings.HasPrefix(raw, "//") || strings.HasPrefix(cleaned(raw), "//") || strings.ContainsFunc(raw, unsafe) {
			return false
		}
		decoded := unescaped(raw)
		if decoded == raw {
			return true
		}
		raw = decoded
	}
	return false
}

// unescaped decodes percent-encoded characters, and keeps a % without digits, as careless decoders do.
func unescaped(raw string) string {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		if raw[i] == '%' && i+2 < len(raw) {
			if c, err := hex.DecodeString(raw[i+1 : i+3]); err == nil {
				b.WriteByte(c[0])
				i += 2
				continue
			}
		}
		b.WriteByte(raw[i])
	}
	return b.String()
}

func unsafe(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }

// cleaned resolves the dots in a path as browsers do, which keep empty segments.
func cleaned(raw string) string {
	var kept []string
	for _, segment := range strings.Split(raw, "/")[1:] {
		switch segment {
		case ".":
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
		default:
			kept = append(kept, segment)
		}
	}
	return "/" + strings.Join(kept, "/")
}
