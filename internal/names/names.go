//go:build !tally

// Package names has the names of this module that another rate limiter of Caddy may have, too. A build
// with the tag `tally` has others, so that both can be in one binary. In it, `rate_limit` in messages and
// documentation means the directive `tally` (decision 165).
package names

const (
	App     = "rate_limit" // of the app, and its place in a config
	Handler = "rate_limit" // in a route
	Metrics = "caddy_rate_limit_"
)
