//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/process"
)

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

var nginx = server{
	name: "nginx", version: "-v", sides: []side{without, limited},
	find: func(context.Context) (string, error) { return lookPath("nginx") },
	start: func(ctx context.Context, s site) (*process.Process, error) {
		file := filepath.Join(s.folder, "nginx.conf")
		if err := os.WriteFile(file, []byte(s.nginxConfig()), 0o600); err != nil {
			return nil, err
		}
		return process.Start(ctx, filepath.Join(s.folder, "log"), nil, s.program, "-p", s.folder, "-c", file)
	},
}

// lookPath finds a program, also in a folder that isn't in everybody's PATH.
func lookPath(name string) (string, error) {
	if found, err := exec.LookPath(name); err == nil {
		return found, nil
	}
	return exec.LookPath("/usr/sbin/" + name)
}

// nginxConfig returns the configuration. The zone has room for some 250,000 keys; what is
// beyond drops the oldest.
func (s site) nginxConfig() string {
	user, zone, limiter := "", "", ""
	if os.Getuid() == 0 {
		user = "user root;" // or the workers can't use the folder
	}
	if s.side != without {
		zone = fmt.Sprintf("limit_req_zone $http_x_key zone=keys:32m rate=%dr/m;\n\tlimit_req_status 429;", s.limit.perMinute())
		limiter = "limit_req zone=keys;"
		if s.limit.amount > 1 {
			limiter = fmt.Sprintf("limit_req zone=keys burst=%d nodelay;", s.limit.amount)
		}
	}
	return fmt.Sprintf(nginxConfig, user, s.folder, zone, s.port, limiter)
}
