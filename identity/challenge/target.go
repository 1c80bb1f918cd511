package challenge

import (
	"encoding/hex"
	"net/url"
	"strings"
)

// MaxTarget is how long a target is at most, in bytes.
const MaxTarget = 2048

// Target returns where a person goes on to, if that is on this very site, or
// else "/": a path with an optional query, as a request line has it. It refuses
// whatever a browser, a proxy or an application behind could take for an address
// elsewhere: other schemes and hosts, a path that begins with two slashes once it
// is decoded or cleaned, backslashes, control characters, spaces and what is not
// ASCII.
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

// unfit reports whether a character does not belong in a request line, or is one
// that browsers take for another.
func unfit(c rune) bool { return c <= ' ' || c > '~' || c == '\\' || c == '#' }

// maxDecodings is how many times over something may be percent-encoded. What is
// encoded more often than that is nobody's honest address.
const maxDecodings = 4

// staysHere reports whether a path remains one, however often it is decoded.
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

// unescaped decodes percent-encoded characters, and leaves a % that stands for
// itself, as careless decoders do.
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

// cleaned resolves the dots in a path as browsers do, which keep empty segments
// apart.
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
