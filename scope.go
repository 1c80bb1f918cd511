package tally

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// With which zones of its name a zone counts together.
const (
	scopeShared = "shared"
	scopeSite   = "site"
)

// siteLimits are what clients can be held to in a zone, on one site if it counts each on
// its own.
type siteLimits struct {
	own    *limitSet
	byTier map[string]*limitSet // instead of own; nil for an unlimited tier
}

// provisionScope settles which sites are counted on their own. Sites are told apart by
// what the config calls them and not by what clients do: a client that makes up hosts
// gains nothing.
func (z *Zone) provisionScope(ctx caddy.Context, s *survey) error {
	switch z.Scope {
	case "", scopeShared:
		return nil
	case scopeSite:
	default:
		return fmt.Errorf("scope: must be shared or site, got %q", z.Scope)
	}
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return errors.New("scope: there are sites in HTTP servers only")
	}
	z.sites = map[string]siteLimits{"": {}}
	z.elsewhere = strings.Join(server.Listen, " ")
	for _, host := range s.hosts[server] {
		z.sites[strings.ToLower(host)] = siteLimits{}
	}
	return nil
}

// site returns the site of a host among those of the zone, or "" for what isn't named.
func (z *Zone) site(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, ok := z.sites[host]; ok {
		return host
	}
	labels := strings.Split(host, ".")
	if len(labels) > maxLabels {
		return ""
	}
	for i := range labels { // as Caddy: each `*` is a label, from the left
		labels[i] = "*"
		wild := strings.Join(labels, ".")
		if _, ok := z.sites[wild]; ok {
			return wild
		}
	}
	return ""
}

// maxLabels bounds how many labels of a host are looked at.
const maxLabels = 16

// limitsOf returns what a request can be held to in a zone.
func (rq *request) limitsOf(z *Zone) siteLimits {
	if z.sites == nil {
		return z.siteLimits
	}
	return z.sites[z.site(rq.http.Host)]
}

// countedAs returns the name under which a zone counts on a site.
func (z *Zone) countedAs(site string) string {
	if z.sites == nil {
		return z.Name
	}
	if site == "" {
		site = z.elsewhere
	}
	return z.Name + "\x00" + site
}
