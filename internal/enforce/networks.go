package enforce

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/publicsuffix"

	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// The names of the placeholders that tell where a client's address is.
const (
	ASNPlaceholder     = "http.rate_limit.asn"
	CountryPlaceholder = "http.rate_limit.country"
)

// DomainPlaceholder is the name of the placeholder with the registered domain of the requested host.
const DomainPlaceholder = "http.rate_limit.domain"

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

// mapDomain sets the placeholder of the registered domain, which is resolved on use.
func mapDomain(repl *caddy.Replacer, r *http.Request) {
	repl.Map(func(name string) (any, bool) {
		if name != DomainPlaceholder {
			return nil, false
		}
		return registeredDomain(HostKey(r.Host)), true
	})
}

// registeredDomain returns the registered domain of a host in its one spelling: the part of it that somebody has
// registered, by the Public Suffix List. Of an address, or of a name that nobody can register, it is the host.
func registeredDomain(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
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

// CheckNetworks returns an error if autonomous systems or countries are needed and no file has any.
func (cfg *Config) CheckNetworks(asn, country bool) error {
	switch {
	case country && !cfg.Networks.HaveCountries():
		return errors.New("country: no file with countries is configured: write networks <file> into the global option rate_limit, such as networks /var/lib/GeoIP/GeoLite2-Country.mmdb")
	case asn && !cfg.Networks.HaveASNs():
		return errors.New("asn: no file with autonomous systems is configured: write networks <file> into the global option rate_limit, such as networks /var/lib/GeoIP/GeoLite2-ASN.mmdb")
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
