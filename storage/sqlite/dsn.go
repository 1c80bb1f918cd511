package sqlite

import (
	"net/url"
	"path/filepath"
	"strings"
)

// dsn returns the URI of an absolute path, with whatever bytes it has
// (https://www.sqlite.org/uri.html), and a query.
func dsn(path, query string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query}).String()
}
