package enforce

import (
	"net/netip"

	"github.com/caddy-tally/caddy-tally/internal/matcher"
)

// The names of the placeholders that tell where a client's address is.
const (
	ASNPlaceholder     = "http.rate_limit.asn"
	CountryPlaceholder = "http.rate_limit.country"
)

// mapNetworks sets the placeholders of the client's network, which are resolved on use. They are
// empty for an address that the client may have written itself.
func (e *Evaluation) mapNetworks() {
	r, files := e.Http, e.Handler.App.Networks
	e.Repl.Map(func(name string) (any, bool) {
		var in func(netip.Addr) string
		switch name {
		case ASNPlaceholder:
			in = files.ASN
		case CountryPlaceholder:
			in = files.Country
		default:
			return nil, false
		}
		return matcher.LookUp(r, in), true
	})
}
