package tally

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
)

// replayRequest makes requests of the lines of a log. Each uses the memory of the one before.
type replayRequest struct {
	request http.Request
	header  http.Header
	values  []string // of the header
	tls     *tls.ConnectionState
}

// of returns the request that a line of a log is about, as a server would receive it, until the
// next call.
func (q *replayRequest) of(r *accesslog.Record) (*http.Request, error) {
	u, err := url.ParseRequestURI(r.URI)
	if err != nil {
		if r.URI != "*" && r.Method != http.MethodConnect {
			return nil, errors.New("its path is none that a server accepts")
		}
		u = &url.URL{Path: r.URI}
	}
	q.request = http.Request{
		Method: r.Method, URL: u, RequestURI: r.URI, Host: r.Host, Proto: cmp.Or(r.Proto, "HTTP/1.1"), Body: http.NoBody,
		Header: q.headerOf(r.Header), ContentLength: r.Read,
		RemoteAddr: net.JoinHostPort(addressOf(r.RemoteIP), cmp.Or(r.RemotePort, "0")),
	}
	request := &q.request
	request.ProtoMajor, request.ProtoMinor, _ = http.ParseHTTPVersion(request.Proto)
	if text := r.Value("Content-Length"); text != "" {
		if length, err := strconv.ParseInt(text, 10, 64); err == nil && length >= 0 {
			request.ContentLength = length
		}
	}
	if r.TLS {
		request.TLS = q.connectionTo(cmp.Or(r.ServerName, hostName(r.Host)))
	}
	return request, nil
}

// connectionTo returns the state of a connection with TLS to a server of some name.
func (q *replayRequest) connectionTo(server string) *tls.ConnectionState {
	if q.tls == nil || q.tls.ServerName != server {
		q.tls = &tls.ConnectionState{HandshakeComplete: true, ServerName: server, Version: tls.VersionTLS13}
	}
	return q.tls
}

// headerOf returns header fields as a server has them.
func (q *replayRequest) headerOf(fields []accesslog.Field) http.Header {
	if q.header == nil {
		q.header = make(http.Header)
	}
	clear(q.header)
	q.values = q.values[:0]
	for _, f := range fields {
		q.values = append(q.values, f.Value)
	}
	for i, f := range fields {
		if before := q.header[f.Name]; before != nil {
			q.header[f.Name] = append(before, f.Value)
		} else {
			q.header[f.Name] = q.values[i : i+1 : i+1]
		}
	}
	return q.header
}
