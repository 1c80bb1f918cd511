//go:build tally

package names

const (
	App     = "tally"
	Handler = "tally"
	Metrics = "caddy_tally_"
)
