//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/process"
)

// haproxyConfig is a site of HAProxy: port, limiter.
const haproxyConfig = `defaults
	mode http
	timeout connect 10s
	timeout client 60s
	timeout server 60s
frontend site
	bind 127.0.0.1:%d
	%s
	http-request return status 200 content-type text/plain string hello
`

// haproxyLimiter is a stick table with room for twice as many keys as are in rotation;
// what is beyond drops the oldest: window in seconds, amount.
const haproxyLimiter = `stick-table type string len 32 size 200k expire %[1]ds store http_req_rate(%[1]ds)
	http-request track-sc0 req.hdr(X-Key)
	http-request deny deny_status 429 if { sc_http_req_rate(0) gt %[2]d }`

var haproxy = server{
	name: "haproxy", version: "-v", sides: []side{without, limited},
	find: func(context.Context) (string, error) { return lookPath("haproxy") },
	start: func(ctx context.Context, s site) (*process.Process, error) {
		limiter := ""
		if s.side != without {
			limiter = fmt.Sprintf(haproxyLimiter, int(s.limit.window.Seconds()), s.limit.amount)
		}
		file := filepath.Join(s.folder, "haproxy.cfg")
		if err := os.WriteFile(file, fmt.Appendf(nil, haproxyConfig, s.port, limiter), 0o600); err != nil {
			return nil, err
		}
		return process.Start(ctx, filepath.Join(s.folder, "log"), nil, s.program, "-db", "-f", file)
	},
}
