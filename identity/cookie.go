package identity

import "strings"

// MaxCookies bounds the number of cookies of one name that are examined in a request. A browser sends one, or a
// few if another site of the domain has set more.
const MaxCookies = 8

// FindCookie calls try with the values of the cookies with exactly this name, in the order of the request's
// Cookie fields, until try returns true or MaxCookies have been tried. It reports whether try returned true.
func FindCookie(fields []string, name string, try func(value string) bool) bool {
	tries := 0
	for _, field := range fields {
		for rest := field; rest != "" && tries < MaxCookies; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			value, ok := cookieValue(pair, name)
			if !ok {
				continue
			}
			if tries++; try(value) {
				return true
			}
		}
	}
	return false
}

// cookieValue returns the value of a cookie-pair (RFC 6265, section 4.2.1) if it
// has exactly this name.
func cookieValue(pair, name string) (string, bool) {
	rest, ok := strings.CutPrefix(trim(pair), name)
	if !ok {
		return "", false
	}
	value, ok := strings.CutPrefix(strings.TrimLeft(rest, " \t"), "=")
	return strings.TrimLeft(value, " \t"), ok
}

func trim(s string) string { return strings.Trim(s, " \t") }

// StripCookie returns the values of a request's Cookie fields without the cookies of exactly this name. It
// omits fields that become empty. It returns fields itself if there is nothing to strip, and never changes
// fields.
func StripCookie(fields []string, name string) []string {
	for i, field := range fields {
		if hasCookie(field, name) {
			return stripCookie(fields, i, name)
		}
	}
	return fields
}

// stripCookie copies fields, beginning with the index first without a cookie.
func stripCookie(fields []string, first int, name string) []string {
	kept := append(make([]string, 0, len(fields)), fields[:first]...)
	for _, field := range fields[first:] {
		if field = withoutCookie(field, name); field != "" {
			kept = append(kept, field)
		}
	}
	return kept
}

func hasCookie(field, name string) bool {
	if !strings.Contains(field, name) {
		return false
	}
	for pair := range strings.SplitSeq(field, ";") {
		if _, ok := cookieValue(pair, name); ok {
			return true
		}
	}
	return false
}

func withoutCookie(field, name string) string {
	if !hasCookie(field, name) {
		return field
	}
	var b strings.Builder
	for pair := range strings.SplitSeq(field, ";") {
		if _, ok := cookieValue(pair, name); ok || trim(pair) == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		b.WriteString(trim(pair))
	}
	return b.String()
}
