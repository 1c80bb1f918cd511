package replayer

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// requests makes requests from the lines of a log. Each reuses the memory of the one before.
type requests struct {
	request http.Request
	header  http.Header
	values  []string // of the header
	tls     *tls.ConnectionState
}

// of returns the request of a log line, as a server would receive it. It is valid until the next
// call.
func (re *requests) of(r *accesslog.Record) (*http.Request, error) {
	u, err := url.ParseRequestURI(r.URI)
	if err != nil {
		if r.URI != "*" && r.Method != http.MethodConnect {
			return nil, errors.New("its path is none that a server accepts")
		}
		u = &url.URL{Path: r.URI}
	}
	re.request = http.Request{
		Method: r.Method, URL: u, RequestURI: r.URI, Host: r.Host, Proto: cmp.Or(r.Proto, "HTTP/1.1"),
		Body:   http.NoBody,
		Header: re.headerOf(r.Header), ContentLength: r.Read,
		RemoteAddr: net.JoinHostPort(Address(r.RemoteIP), cmp.Or(r.RemotePort, "0")),
	}
	request := &re.request
	request.ProtoMajor, request.ProtoMinor, _ = http.ParseHTTPVersion(request.Proto)
	if text := r.Value("Content-Length"); text != "" {
		if length, err := strconv.ParseInt(text, 10, 64); err == nil && length >= 0 {
			request.ContentLength = length
		}
	}
	if r.TLS {
		request.TLS = re.connectionTo(cmp.Or(r.ServerName, hostName(r.Host)))
	}
	return request, nil
}

// connectionTo returns the state of a TLS connection to a server name.
func (re *requests) connectionTo(server string) *tls.ConnectionState {
	if re.tls == nil || re.tls.ServerName != server {
		re.tls = &tls.ConnectionState{HandshakeComplete: true, ServerName: server, Version: tls.VersionTLS13}
	}
	return re.tls
}

// headerOf returns header fields in a server's form.
func (re *requests) headerOf(fields []accesslog.Field) http.Header {
	if re.header == nil {
		re.header = make(http.Header)
	}
	clear(re.header)
	re.values = re.values[:0]
	for _, f := range fields {
		re.values = append(re.values, f.Value)
	}
	for i, f := range fields {
		if before := re.header[f.Name]; before != nil {
			re.header[f.Name] = append(before, f.Value)
		} else {
			re.header[f.Name] = re.values[i : i+1 : i+1]
		}
	}
	return re.header
}

// Address returns an address. For any other text, such as a hash of an address, it derives an
// address with a network of its own from the text.
func Address(text string) string {
	if _, err := netip.ParseAddr(text); err == nil || text == "" {
		return text
	}
	hash := xxhash.Sum64String(text)
	return fmt.Sprintf("fd%02x:%04x:%04x:%04x::1", hash>>48&0xff, hash>>32&0xffff, hash>>16&0xffff, hash&0xffff)
}

// hostName returns a host without its port.
func hostName(host string) string {
	name, _ := splitPort(host)
	return name
}

// splitPort splits a host into its name and its port, or "".
func splitPort(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i < 0 || strings.HasSuffix(host, "]") {
		return host, ""
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return host, ""
	}
	return name, port
}

// need is a request's property that a zone needs and a log may lack.
type need struct {
	field string // the header field; "" if no log has the property
	text  string
}

// unknown returns a property that a zone needs and the log lacks, or "".
func (j *judge) unknown(z *enforce.Zone, r *accesslog.Record) string {
	needs, known := j.needs[z]
	if !known {
		needs = needsOf(z, j.config.run)
		j.needs[z] = needs
	}
	for _, n := range needs {
		if n.field == "" || r.Hides(n.field) {
			return n.text
		}
	}
	return ""
}

// needsOf returns the properties that a zone counts by and a log may lack.
func needsOf(z *enforce.Zone, cfg *enforce.Config) (needs []need) {
	for _, text := range []string{z.Key, z.Tier, z.Cost.From} {
		for _, name := range routing.PlaceholderNames(text) {
			if n, ok := needOf(name); ok {
				needs = append(needs, n)
			}
		}
	}
	if len(z.Fields) > 0 && len(needs) == 0 {
		needs = append(needs, need{text: "the body"}) // for its matchers
	}
	if cfg.APIKeys != nil && (z.Per == enforce.PerAPIKey || z.Tiers || z.Per == enforce.PerClient) {
		for _, source := range cfg.APIKeys.From {
			switch source.Kind {
			case enforce.FromHeader:
				needs = append(needs, needOfField(source.In))
			case enforce.FromBearer:
				needs = append(needs, needOfField("Authorization"))
			case enforce.FromCookie:
				needs = append(needs, needOfField("Cookie"))
			}
		}
	}
	if z.Per == enforce.PerClient && cfg.Session != nil {
		needs = append(needs, needOfField("Cookie"))
	}
	for _, s := range z.When {
		if s.Measure == (load.None{}) {
			needs = append(needs, need{text: "how busy the machine or the upstream was"})
		}
	}
	if z.Count != nil && len(z.Count.When) > 0 {
		needs = append(needs, need{text: "the header fields of answers"})
	}
	if z.Settle != nil && z.Settle.From != "" {
		needs = append(needs, need{text: "the units that requests have used, " + z.Settle.From})
	}
	return needs
}

func needOfField(name string) need {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return need{field: name, text: "the header field " + name}
}

// needOf returns the property that a placeholder needs, if logs may lack it.
func needOf(name string) (n need, ok bool) {
	if field, ok := strings.CutPrefix(name, "http.request.header."); ok {
		return needOfField(field), true
	}
	switch {
	case strings.HasPrefix(name, "http.request.cookie."):
		return needOfField("Cookie"), true
	case strings.HasPrefix(name, "http.request.body"), bodyfield.IsField(name):
		return need{text: "the body"}, true
	case strings.HasPrefix(name, "http.request.tls.client."):
		return need{text: "the client's certificate"}, true
	case strings.HasPrefix(name, "http.auth.user.") && name != "http.auth.user.id":
		return need{text: "what authentication knows of the user"}, true
	}
	return n, false
}
