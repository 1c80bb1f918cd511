//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/process"
)

// A server is a program that answers requests, with a limiter or without.
type server struct {
	name    string
	version string                                  // the argument with which it says its version
	find    func(context.Context) ([]string, error) // returns the programs to compare, or why there is none
	start   func(context.Context, site) (*process.Process, error)
}

// A site is what a server is started with.
type site struct {
	program string
	limited bool
	limit   limit
	folder  string // for what it keeps; it exists
	port    int
}

// A limit is what each key may do.
type limit struct {
	amount int
	window time.Duration
}

// perMinute returns the limit as a rate, which is at least 1.
func (l limit) perMinute() int {
	return max(1, int(time.Duration(l.amount)*time.Minute/l.window))
}

// all returns the servers.
func (s *settings) all() []server {
	return []server{
		{"caddy", "version", s.buildTally, startTally},
		{"incumbent", "version", func(context.Context) ([]string, error) {
			if s.incumbent == "" {
				return nil, errors.New("-incumbent FILE names a Caddy that has it")
			}
			return []string{s.incumbent}, nil
		}, startIncumbent},
		{"nginx", "-v", lookPath("nginx"), startNginx},
		{"haproxy", "-v", lookPath("haproxy"), startHAProxy},
	}
}

// lookPath finds a program, also in a folder that isn't in everybody's PATH.
func lookPath(name string) func(context.Context) ([]string, error) {
	return func(context.Context) ([]string, error) {
		found, err := exec.LookPath(name)
		if err != nil {
			found, err = exec.LookPath("/usr/sbin/" + name)
		}
		return []string{found}, err
	}
}

// tallyLimiter is the limiter of this module: amount, window.
const tallyLimiter = `rate_limit {
			zone keys {
				per key {http.request.header.X-Key}
				limit %d/%v
			}
		}`

// outage is what Caddy logs when its limiter can't use the store. A machine on which it
// does is too busy to measure anything.
const outage = "the store can't be used"

func startTally(ctx context.Context, s site) (*process.Process, error) {
	global := fmt.Sprintf("rate_limit {\n\t\tstore sqlite %s\n\t}", filepath.Join(s.folder, "tally.db"))
	return s.startCaddy(ctx, global, tallyLimiter)
}

// incumbentLimiter is the limiter of mholt/caddy-ratelimit: amount, window.
const incumbentLimiter = `rate_limit {
			zone keys {
				key {http.request.header.X-Key}
				events %d
				window %v
			}
		}`

func startIncumbent(ctx context.Context, s site) (*process.Process, error) {
	return s.startCaddy(ctx, "", incumbentLimiter)
}

func (s site) startCaddy(ctx context.Context, global, limiter string) (*process.Process, error) {
	if !s.limited {
		return process.StartCaddy(ctx, s.folder, s.program, s.port, "", "")
	}
	return process.StartCaddy(ctx, s.folder, s.program, s.port, global, fmt.Sprintf(limiter, s.limit.amount, s.limit.window))
}

// nginxConfig is a site of nginx: user, folder, zone, port, limiter. Its answer is the
// GIF of empty_gif: return answers before limit_req is asked.
const nginxConfig = `%s
daemon off;
worker_processes auto;
pid %[2]s/pid;
error_log stderr crit;
events {
	worker_connections 1024;
}
http {
	access_log off;
	keepalive_requests 1000000000;
	client_body_temp_path %[2]s/body;
	proxy_temp_path %[2]s/proxy;
	fastcgi_temp_path %[2]s/fastcgi;
	uwsgi_temp_path %[2]s/uwsgi;
	scgi_temp_path %[2]s/scgi;
	%[3]s
	server {
		listen 127.0.0.1:%[4]d;
		location / {
			%[5]s
			empty_gif;
		}
	}
}
`

// startNginx starts an nginx. The zone has room for some 250,000 keys; what is beyond drops the oldest.
func startNginx(ctx context.Context, s site) (*process.Process, error) {
	user, zone, limiter := "", "", ""
	if os.Getuid() == 0 {
		user = "user root;" // or the workers can't use the folder
	}
	if s.limited {
		zone = fmt.Sprintf("limit_req_zone $http_x_key zone=keys:32m rate=%dr/m;\n\tlimit_req_status 429;", s.limit.perMinute())
		limiter = "limit_req zone=keys;"
		if s.limit.amount > 1 {
			limiter = fmt.Sprintf("limit_req zone=keys burst=%d nodelay;", s.limit.amount)
		}
	}
	file := filepath.Join(s.folder, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxConfig, user, s.folder, zone, s.port, limiter), 0o600); err != nil {
		return nil, err
	}
	return process.Start(ctx, s.folder, s.program, "-p", s.folder, "-c", file)
}

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

func startHAProxy(ctx context.Context, s site) (*process.Process, error) {
	limiter := ""
	if s.limited {
		limiter = fmt.Sprintf(haproxyLimiter, int(s.limit.window.Seconds()), s.limit.amount)
	}
	file := filepath.Join(s.folder, "haproxy.cfg")
	if err := os.WriteFile(file, fmt.Appendf(nil, haproxyConfig, s.port, limiter), 0o600); err != nil {
		return nil, err
	}
	return process.Start(ctx, s.folder, s.program, "-db", "-f", file)
}
