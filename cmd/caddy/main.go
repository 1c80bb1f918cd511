// Command caddy is Caddy with its standard modules and this one, and with all stores, for
// trying it out and for tests. Those who run a server build theirs with xcaddy.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-tally/caddy-tally"
	_ "github.com/caddy-tally/caddy-tally/storage/exchange/postgres"
	_ "github.com/caddy-tally/caddy-tally/storage/postgres"
	_ "github.com/caddy-tally/caddy-tally/storage/redis"
)

func main() { caddycmd.Main() }
