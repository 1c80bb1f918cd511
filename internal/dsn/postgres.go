package dsn

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Postgres is for [Expand] with a URL or with pairs of keyword and value, in libpq's syntax. A
// password may contain any characters, and no part of it is taken for a host, a path or another
// option. Hosts and lists of options are not escaped.
func Postgres(before, value, after string) (string, error) {
	switch {
	case isURL(before):
		return quoteInURL(before, value, after), nil
	case strings.Count(escaped.Replace(before), "'")%2 == 1:
		return strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value), nil
	case passwordAtEnd.MatchString(before) && (value == "" || strings.ContainsAny(value, " \t\n\r\f\v'\\")):
		return "", errors.New("is empty or has a blank, a quote or a backslash: put the placeholder in quotes, as in password='{env.TALLY_PASSWORD}'")
	}
	return value, nil
}

var (
	// escaped removes the escaped characters from pairs of keyword and value.
	escaped       = strings.NewReplacer(`\\`, "", `\'`, "")
	passwordAtEnd = regexp.MustCompile(`(?:user|password)\s*=\s*$`)
)

// Address returns the hosts and the database of a configuration.
func Address(config *pgconn.Config) string {
	hosts := []string{net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
	for _, f := range config.Fallbacks {
		hosts = append(hosts, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
	}
	// the list has each host with and without TLS
	return strings.Join(slices.Compact(hosts), ",") + "/" + config.Database
}

// IsSplit reports whether a DSN seems to have a password with an unescaped @, slash or question mark, so that the
// driver takes a part of it for a host or the database. address has these as the driver reads them: hosts, a slash, and
// the database.
func IsSplit(dsn, address string) bool {
	hosts, _, _ := strings.Cut(address, "/")
	_, place, _ := strings.Cut(dsn, "://")
	place, options, _ := strings.Cut(place, "?")
	option, _, _ := strings.Cut(options, "=")
	_, database, _ := strings.Cut(place, "/")
	return strings.Contains(hosts, "@") || isURL(dsn) && strings.Contains(database+option, "@")
}

// Unreadable returns an error about a DSN. A part of its password may be taken for the host. The driver's
// errors may show a password with special characters, so only those about files are passed on.
func Unreadable(err error, example string) error {
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return fmt.Errorf("dsn: %w", file)
	}
	return fmt.Errorf(
		"dsn: it can't be read; write it as in %s, and special characters of the password as in %%40 for @", example)
}

var seed = maphash.MakeSeed()

// Fingerprint identifies a DSN in this process, and reveals nothing of it.
func Fingerprint(dsn string) uint64 { return maphash.String(seed, dsn) }

func isURL(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// quoteInURL percent-encodes a user, a password, or a user and a password with a colon between them.
func quoteInURL(before, value, after string) string {
	_, authority, _ := strings.Cut(before, "://")
	host, _, _ := strings.Cut(after, "/")
	user, password, both := strings.Cut(value, ":")
	switch {
	case strings.Contains(authority, "/"), !strings.Contains(host, "@"):
		if passwordAtEnd.MatchString(before) {
			return encode(value)
		}
		return value
	case authority == "" && both:
		return encode(user) + ":" + encode(password)
	}
	return encode(value)
}

// encode percent-encodes a value, unless it is percent-encoded already.
func encode(value string) string {
	plain, err := url.PathUnescape(value)
	if err == nil && plain != value && !strings.ContainsAny(value, " @/#?:[]&=+") {
		return value
	}
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}
