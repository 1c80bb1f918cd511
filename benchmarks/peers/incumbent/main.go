// Command incumbent is a Caddy with the rate limiter mholt/caddy-ratelimit.
//
// It is a module of its own, so that nobody who builds Caddy with this plugin gets that
// one as well. What it requires isn't listed in go.mod: the benchmark builds a copy, and
// adds the module if the Go module proxy has it.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-ratelimit"
)

func main() { caddycmd.Main() }
