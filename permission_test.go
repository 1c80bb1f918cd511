package tally_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/caddyserver/certmagic"

	tally "github.com/caddy-tally/caddy-tally"
)

// Caddy's module of permissions and certmagic's key of the hello in a context are experimental.
var (
	_ caddytls.OnDemandPermission = (*tally.Permission)(nil)
	_                             = certmagic.ClientHelloInfoCtxKey
)

// permitting returns a function that makes a permission with a zone, which is asked for a client, and the storage.
func permitting(t *testing.T) (permit func(zone string) (ask func(client, name string) error), storage certmagic.Storage) {
	t.Helper()
	config := fmt.Sprintf(`{"admin":{"disabled":true},"storage":{"module":"file_system","root":%q},"apps":{"rate_limit":{"store":{"engine":"memory"}}}}`, t.TempDir())
	c := new(caddy.Config)
	if err := json.Unmarshal([]byte(config), c); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(c)
	if err != nil {
		t.Fatal(err)
	}
	app, err := ctx.App("rate_limit")
	if err != nil {
		t.Fatal(err)
	}
	var cleanups []func() error
	t.Cleanup(func() {
		for _, cleanup := range append(cleanups, app.(*tally.App).Cleanup) {
			if err := cleanup(); err != nil {
				t.Error(err)
			}
		}
	})
	return func(zone string) func(client, name string) error {
		p := new(tally.Permission)
		if err := json.Unmarshal([]byte(`{"zones":[`+zone+`]}`), p); err != nil {
			t.Fatal(err)
		}
		if err := p.Provision(ctx); err != nil {
			t.Fatal(err)
		}
		cleanups = append(cleanups, p.Cleanup)
		if err := app.(*tally.App).Start(); err != nil {
			t.Fatal(err)
		}
		return func(client, name string) error {
			hello := &tls.ClientHelloInfo{Conn: from{client: client}}
			return p.CertificateAllowed(context.WithValue(context.Background(), certmagic.ClientHelloInfoCtxKey, hello), name)
		}
	}, ctx.Storage()
}

// from is a connection from an address.
type from struct {
	net.Conn
	client string
}

func (f from) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(f.client), Port: 1}
}

const perDomain = `{"name":"domains","per":"domain","limits":[{"amount":1,"window":"168h"}]}`

// A name with a certificate is permitted, whatever its limits are, since it is loaded or renewed, and uses up nothing.
// However another one is written, it counts for its registered domain, and none is permitted for being odd. This needs
// certmagic's paths in a storage. A file system has no names of 70,000 bytes, which is no reason to permit them.
func TestNamesOfCertificates(t *testing.T) {
	permit, storage := permitting(t)
	ask, askOdd := permit(perDomain), permit(`{"name":"all","per":"ip","limits":[{"amount":2,"window":"168h"}]}`)
	stored := map[string]string{"stored.example.com": "stored.example.com", "x.wild.example.com": "*.wild.example.com", "192.0.2.3": "192.0.2.3", "xn--bcher-kva.example.org": "xn--bcher-kva.example.org"}
	for _, name := range stored {
		key := certmagic.StorageKeys.SiteCert("acme-v02.api.letsencrypt.org-directory", name)
		if err := storage.Store(context.Background(), key, []byte("certificate")); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		for name := range stored {
			if err := ask("192.0.2.9", name); err != nil {
				t.Errorf("round %d: %s: %v", round, name, err)
			}
		}
		err := ask("192.0.2.9", "new.example.com")
		if (err == nil) != (round == 0) || err != nil && !errors.Is(err, caddytls.ErrPermissionDenied) {
			t.Errorf("round %d: a name without a certificate is answered with %v", round, err)
		}
	}
	if err := ask("192.0.2.9", "a.x.wild.example.com"); err == nil {
		t.Error("a name below that of a wildcard is permitted")
	}
	for _, names := range [][2]string{
		{"a.one.com", "B.ONE.COM"}, {"a.two.com", "b.two.com."}, {"a.three.co.uk", "b.three.co.uk"}, {"xn--bcher-kva.example", "x.XN--BCHER-KVA.example"},
		{"bücher.example.net", "xn--bcher-kva.example.net"}, {"192.0.2.1", "192.0.2.1"}, {"2001:db8::1", "2001:db8::1"}, {"localhost", "localhost"},
	} {
		for i, name := range names {
			if err := ask("192.0.2.9", name); (err == nil) != (i == 0) {
				t.Errorf("%q: %q is answered with %v", names, name, err)
			}
		}
	}
	passed := 0
	for _, name := range []string{"", ".", "a b", "a/b", "a?b", "a#b", "a@b", "%", "%zz", "a:b", "a:1", "[::1]", "a\x00b", "a\r\nb", strings.Repeat("a", 70_000), "*.example.com", "../../x", "\xff"} {
		if askOdd("192.0.2.9", name) == nil {
			passed++
		}
	}
	if passed > 2 {
		t.Errorf("%d odd names are permitted, of at most 2", passed)
	}
}
