package client_test

import (
	"fmt"
	"net/netip"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/client"
	"github.com/caddy-tally/caddy-tally/identity/session"
)

// request is what a request shows of its sender.
type request struct{ apiKey, address, userAgent string }

func (r request) Service() (tier string, ok bool) { return "", false }
func (r request) APIKey() string                  { return r.apiKey }
func (r request) Hints() identity.Hints           { return identity.Hints{UserAgent: r.userAgent} }

func (r request) Network() (network netip.Prefix, claimed bool) {
	network, _ = identity.Prefix(r.address, identity.DefaultIPv4Prefix, identity.DefaultIPv6Prefix)
	return network, false
}

func (r request) Session([]byte) (s session.Session, ok, forged bool) { return s, false, false }

// The first applicable identification wins: an API key is stronger than a browser, and a browser is
// stronger than its network.
func ExampleClient_Identify() {
	for _, r := range []request{
		{apiKey: "acme", address: "192.0.2.7", userAgent: "Firefox"},
		{address: "192.0.2.7", userAgent: "Firefox"},
		{address: "192.0.2.7"},
		{address: "somewhere"},
	} {
		var c client.Client
		c.Identify(r)
		fmt.Println(c.Kind, c.Kind.Verified(), identity.FullText(c.Key))
	}
	// Output:
	// api_key true acme
	// fingerprint false 192.0.2.7/32 be86262421c5b9bde1ef7b04a2c60913
	// prefix false 192.0.2.7/32 b0f66adc83641586656866813fd9dd0b
	// unknown false
}
