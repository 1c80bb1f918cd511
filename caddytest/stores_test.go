package caddytest

import (
	tally "github.com/caddy-tally/caddy-tally"
	"github.com/caddy-tally/caddy-tally/storage/postgres"
	"github.com/caddy-tally/caddy-tally/storage/redis"
)

// Interface guards
var (
	_ tally.NetworkStore = (*postgres.Store)(nil)
	_ tally.NetworkStore = (*redis.Store)(nil)
)
