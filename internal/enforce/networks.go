package enforce

import (
	"net/http"
	"net/netip"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// The names of the placeholders that tell where a client's address is.
const (
	ASNPlaceholder     = "http.rate_limit.asn"
	CountryPlaceholder = "http.rate_limit.country"
)

// mapNetworks sets the placeholders of the client's network, which are resolved on use. They are
// empty for an address that the client may have written itself.
func (cfg *Config) mapNetworks(repl *caddy.Replacer, r *http.Request) {
	repl.Map(func(name string) (any, bool) {
		if in := cfg.where(name); in != nil {
			return matcher.LookUp(r, in), true
		}
		return nil, false
	})
}

// where returns the look-up of a placeholder, or nil if it is another's.
func (cfg *Config) where(name string) func(netip.Addr) string {
	switch name {
	case ASNPlaceholder:
		return cfg.Networks.ASN
	case CountryPlaceholder:
		return cfg.Networks.Country
	}
	return nil
}

// KeyOf returns an address's key in a zone, if the address alone determines it: that of a zone `per
// asn` or `per country`.
func (cfg *Config) KeyOf(z *Zone, addr netip.Addr) (key string, ok bool) {
	names := routing.PlaceholderNames(z.Key)
	if len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return cfg.where(name) == nil }) {
		return "", false
	}
	repl := caddy.NewEmptyReplacer()
	repl.Map(func(name string) (any, bool) { return cfg.where(name)(addr), true })
	key = repl.ReplaceAll(z.Key, "")
	return key, key != z.EmptyForm
}
