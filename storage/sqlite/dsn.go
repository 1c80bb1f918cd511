package sqlite

import (
	"path/filepath"
	"strings"
)

// dsn returns the URI of an absolute path, with whatever bytes it has
// (https://www.sqlite.org/uri.html), and a query.
func dsn(path, query string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString("file:")
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		b.WriteByte('/') // C:/…
	}
	for _, c := range []byte(path) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("/-_.~:", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	b.WriteByte('?')
	b.WriteString(query)
	return b.String()
}
