package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// serverURL is the content of the URL of a server.
type serverURL struct {
	addresses          []string
	username, password string
	database           int
	tls                bool
}

// hidden matches a placeholder, whose name may have any of the characters that divide a URL.
var hidden = regexp.MustCompile(`\{[^{}]*\}`)

// parseURL reads the URL of a server. Placeholders are replaced after it was divided into its parts,
// so what they stand for may have any characters; a URL that is one placeholder is replaced first.
// Errors don't show the URL, which may hold a password.
func parseURL(text string, repl *caddy.Replacer) (p serverURL, err error) {
	if hidden.FindString(text) == text {
		if text, err = expand(repl, "url", text); err != nil {
			return p, err
		}
	}
	var names []string
	text = hidden.ReplaceAllStringFunc(text, func(name string) string {
		names = append(names, name)
		return "\x00" + strconv.Itoa(len(names)-1) + "\x00"
	})
	show := func(part string) (string, error) {
		part, err := url.PathUnescape(part)
		if err != nil {
			return "", errors.New("redis: url: a percent sign must be written as %25")
		}
		for i, name := range names {
			part = strings.ReplaceAll(part, "\x00"+strconv.Itoa(i)+"\x00", name)
		}
		return expand(repl, "url", part)
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return p, errors.New("redis: url: must begin with redis:// or rediss://: write redis://host:6379")
	}
	switch scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		p.tls = true
	default:
		return p,
			fmt.Errorf(
				"redis: url: must begin with redis:// or rediss://, got %q: for sentinels write the option sentinel", scheme+"://")
	}
	if rest, _, ok = strings.Cut(rest, "?"); ok {
		return p, errors.New("redis: url: takes no parameters after a question mark: write options in the block of the store, and %3F for a question mark in a password")
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		username, password, both := strings.Cut(rest[:i], ":")
		if p.username, err = show(username); err == nil && both {
			p.password, err = show(password)
		}
		if err != nil {
			return p, err
		}
		rest = rest[i+1:]
	}
	hosts, database, _ := strings.Cut(rest, "/")
	if p.database, err = strconv.Atoi("0" + database); err != nil || p.database > 1<<20 {
		return p, errors.New("redis: url: expected the number of a database after the host, as in redis://host:6379/0")
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host, err = show(host); err != nil {
			return p, err
		}
		if host == "" || strings.ContainsAny(host, " \t\n/@") {
			return p, errors.New("redis: url: has no host: write redis://host:6379")
		}
		p.addresses = append(p.addresses, withPort(host, "6379"))
	}
	return p, nil
}

// withPort adds a port to an address that has none.
func withPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), port)
}

// expand replaces the placeholders in the value of an option, all of which must have a value.
func expand(repl *caddy.Replacer, option, value string) (string, error) {
	expanded, err := repl.ReplaceOrErr(value, true, true)
	if err != nil {
		return "", fmt.Errorf("redis: %s: %w", option, err)
	}
	return strings.TrimRight(expanded, "\r\n"), nil
}

// config returns how to encrypt, or nil if the server isn't spoken to with TLS.
func (t *TLS) config(wanted bool) (*tls.Config, error) {
	if !wanted {
		if t != nil {
			return nil, errors.New("redis: tls: the URL begins with redis://, which is not encrypted: write rediss://")
		}
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t == nil {
		return c, nil
	}
	c.ServerName = t.ServerName
	for _, file := range t.CA {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("redis: tls: ca: %w", err)
		}
		if c.RootCAs == nil {
			c.RootCAs = x509.NewCertPool()
		}
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("redis: tls: ca: %q has no certificate in PEM", file)
		}
	}
	if t.Certificate == "" && t.Key == "" {
		return c, nil
	}
	pair, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
	if err != nil {
		return nil, fmt.Errorf("redis: tls: certificate: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}
