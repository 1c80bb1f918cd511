package tally

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// With which zones of its name a zone counts together.
const (
	scopeShared = "shared"
	scopeSite   = "site"
)

// provisionScope settles which sites are counted on their own. Sites are told apart by
// what the config calls them and not by what clients do: a client that makes up hosts
// gains nothing.
func (z *zoneSetup) provisionScope() error {
	switch z.Scope {
	case "", scopeShared:
		return nil
	case scopeSite:
	default:
		return fmt.Errorf("scope: must be shared or site, got %q", z.Scope)
	}
	server, ok := z.ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return errors.New("scope: there are sites in HTTP servers only")
	}
	z.run.Sites = map[string]enforce.SiteLimits{"": {}}
	z.run.Elsewhere = strings.Join(server.Listen, " ")
	for _, host := range z.survey.hosts[server] {
		z.run.Sites[strings.ToLower(host)] = enforce.SiteLimits{}
	}
	return nil
}

// countedAs returns the name under which a zone counts on a site.
func (z *Zone) countedAs(site string) string {
	if z.run.Sites == nil {
		return z.Name
	}
	if site == "" {
		site = z.run.Elsewhere
	}
	return z.Name + "\x00" + site
}
