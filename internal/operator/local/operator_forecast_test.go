package local

import (
	"net/http"
	"net/netip"
	"reflect"
	"testing"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// addressTarget returns the target for an address.
func addressTarget(address string) *subject {
	ip := netip.MustParseAddr(address)
	return &subject{Target: operator.Target{Kind: operator.Address, Network: netip.PrefixFrom(ip, ip.BitLen())}}
}

// The request in a question has the header fields that a server would receive, in any spelling.
func TestRequestsAskedAboutHaveTheirFields(t *testing.T) {
	x := &explainer{subject: addressTarget("192.0.2.1")}
	r, _, err := x.requestOf(t.Context(), operator.Question{
		URL: "https://a.example/", Header: http.Header{"user-agent": {"curl"}, "X-Tenant": {"one"}, "x-tenant": {"one"}, "host": {"b.example"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{"User-Agent": {"curl"}, "X-Tenant": {"one", "one"}}
	if r.Host != "b.example" || !reflect.DeepEqual(r.Header, want) {
		t.Errorf("the host is %q, the fields are %v", r.Host, r.Header)
	}
}

// Keys of other kinds are distinguished from addresses cheaply: there may be a million of them.
func TestKeysInANetwork(t *testing.T) {
	x := addressTarget("192.0.2.1")
	for key, want := range map[string]bool{
		"k192.0.2.1": true, "k192.0.2.0/24": false, "k0.0.0.0/0": false, "k::ffff:192.0.2.1": false, "k192.0.2.2": false, "kaddress:192.0.2.1": false, "kalice": false, "a192.0.2.1": false,
		string(identity.AppendPrefix([]byte{identity.TagNetwork}, netip.MustParsePrefix("192.0.2.1/32"))): true,
	} {
		if got := x.isIn(key); got != want {
			t.Errorf("%q: %v", key, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { x.isIn("kalice") }); n > 4 {
		t.Errorf("%v allocations", n)
	}
}
