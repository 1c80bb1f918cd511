package identity_test

import (
	"fmt"
	"strings"

	"github.com/caddy-tally/caddy-tally/identity"
)

// Every spelling of an address gives the same network: IPv6 is shortened, and IPv4 inside IPv6 is
// IPv4.
func ExamplePrefix() {
	for _, address := range []string{"192.0.2.7", "::ffff:192.0.2.7", "2001:db8:1:2:3:4:5:6", "somewhere"} {
		network, ok := identity.Prefix(address, identity.DefaultIPv4Prefix, identity.DefaultIPv6Prefix)
		fmt.Println(network, ok)
	}
	// Output:
	// 192.0.2.7/32 true
	// 192.0.2.7/32 true
	// 2001:db8:1:2::/64 true
	// invalid Prefix false
}

// A hash depends on the secret, on the scope and on the key.
func ExampleHasher() {
	secret, err := identity.NewSecret([]byte(strings.Repeat("secret ", 5)))
	if err != nil {
		fmt.Println(err)
		return
	}
	first := secret.Hash(1, "acme")
	same := secret.Hash(1, "acme") == first
	other := secret.Hash(1, "acme") == secret.Hash(2, "acme")
	fmt.Println(same, other)
	// Output: true false
}
