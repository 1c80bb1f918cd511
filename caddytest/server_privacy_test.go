package caddytest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What clients are known by in these tests.
var (
	knownAddresses = []string{
		"203.0.113.77", "198.51.100.201", "2001:db8:77aa:bb33:cc12:dd9e:1f5a:7", "2a02:16d2:4f3e:99::1234:abcd",
	}
	knownValues = []string{
		"tenant-wombat-4711", "session-0f8a77c3e1", "apikey-ZmFrZSBrZXkgb2YgYSB0ZXN0", "user@wombat.example",
	}
)

// secretsOf returns the forms in which a client could be recognized in a file:
// text, bytes, and what anybody could compute from them.
func secretsOf() map[string][]byte {
	secrets := make(map[string][]byte)
	add := func(name string, b []byte) {
		sum := sha256.Sum256(b)
		secrets[name] = b
		secrets[name+" in hex"] = []byte(hex.EncodeToString(b))
		secrets[name+" in base64"] = []byte(base64.RawStdEncoding.EncodeToString(b))
		secrets[name+" hashed"] = sum[:16]
		secrets[name+" hashed, in hex"] = []byte(hex.EncodeToString(sum[:16]))
	}
	for _, value := range knownValues {
		add(value, []byte(value))
	}
	for _, text := range knownAddresses {
		address := netip.MustParseAddr(text)
		bits := 64
		if address.Is4() {
			bits = 32
		}
		network, _ := address.Prefix(bits)
		add(text, []byte(text))
		add(network.String(), []byte(network.String()))
		add(network.Addr().String(), []byte(network.Addr().String()))
		add("bytes of "+text, address.AsSlice()[:bits/8])
	}
	return secrets
}

// wantNoSecrets checks that data shows nothing of a client.
func wantNoSecrets(t *testing.T, where string, data []byte) {
	t.Helper()
	if len(data) == 0 {
		t.Errorf("%s is empty", where)
	}
	for name, secret := range secretsOf() {
		if bytes.Contains(data, secret) {
			t.Errorf("%s shows %s (%q)", where, name, secret)
		}
	}
}

func TestNoPersonalDataAtRest(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(`
		zone ip {
			limit 3/1h
			limit 100/24h token_bucket
		}
		zone tenant {
			per key {http.request.header.X-Tenant}
			limit 3/1h
		}
		zone session {
			per key {http.request.cookie.session}
			limit 3/1h fixed
		}
		zone query {
			per key {http.request.uri.query.key}
			limit 3/1h
		}
		zone client {
			per client
			limit 1000/1h
		}
		zone several {
			per key {client_ip}-{http.request.header.X-Tenant}
			limit 3/1h
		}`))
	refused := 0
	for i, address := range knownAddresses {
		for range 6 {
			value := func(n int) string { return knownValues[(i+n)%len(knownValues)] }
			if s.passed(1, "/?key="+value(2), "X-Forwarded-For: "+address,
				"X-Tenant: "+value(0), "Cookie: session="+value(1), "User-Agent: "+value(3)) == 0 {
				refused++
			}
		}
	}
	if refused != 12 {
		t.Errorf("%d requests were refused, want 12", refused)
	}
	metrics, err := s.metrics()
	if err != nil {
		t.Fatal(err)
	}
	wantNoSecrets(t, "/metrics", []byte(metrics))
	if !strings.Contains(metrics, "caddy_rate_limit_") {
		t.Error("/metrics says nothing of limits")
	}

	look := func(names ...string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(filepath.Dir(s.database()), "*"))
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, file := range files {
			found = append(found, filepath.Base(file))
			err := filepath.WalkDir(file, func(file string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				data, err := os.ReadFile(file)
				wantNoSecrets(t, file, append(data, '\n')) // the log may be empty, having been copied
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(found, names) {
			t.Errorf("files are %q, want %q", found, names)
		}
	}
	look("tally.db", "tally.db-charges", "tally.db-names", "tally.db-names.lock", "tally.db-shm", "tally.db-wal", "tally.epochs", "tally.key")
	s.stop()
	look("tally.db", "tally.db-charges", "tally.db-names", "tally.db-names.lock", "tally.epochs", "tally.key")

	wantNoSecrets(t, "the log", []byte(s.logs()))
	if !strings.Contains(s.logs(), "rate limit exceeded") {
		t.Error("the log says nothing of refusals")
	}
}

// metrics returns what the admin endpoint tells Prometheus.
func (s *server) metrics() (string, error) {
	a, err := s.askAdmin(http.MethodGet, "/metrics")
	return a.body, err
}

// Addresses without keys are what mholt's users have in their logs.
func TestAddressesAreLoggedIfAskedFor(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone tenant {\nper key {http.request.header.X-Tenant}\nlimit 1/1h\n}\nlog_ip"))
	s.wantPassed(1, 2, "/", "X-Forwarded-For: 203.0.113.77", "X-Tenant: "+knownValues[0])
	lines := s.logLines("rate limit exceeded")
	if len(lines) != 1 || lines[0]["client_ip"] != "203.0.113.77" || lines[0]["remote_ip"] != "127.0.0.1" || lines[0]["key"] != nil {
		t.Errorf("lines are %v", lines)
	}
}

// The other way round, so that the test above can fail.
func TestPersonalDataIsLoggedIfAskedFor(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone ip {\nlimit 1/1h\n}\nzone tenant {\nper key {http.request.header.X-Tenant}\nlimit 2/1h\n}\nlog_key"))
	s.wantPassed(1, 2, "/", "X-Forwarded-For: 203.0.113.77", "X-Tenant: "+knownValues[0])
	s.wantPassed(1, 1, "/", "X-Forwarded-For: 203.0.113.78", "X-Tenant: "+knownValues[0])
	s.wantPassed(0, 1, "/", "X-Forwarded-For: 203.0.113.79", "X-Tenant: "+knownValues[0])
	lines := s.logLines("rate limit exceeded")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2", len(lines))
	}
	for i, want := range []map[string]any{
		{"zone": "ip", "client_ip": "203.0.113.77", "remote_ip": "127.0.0.1", "key": "203.0.113.77/32"},
		{"zone": "tenant", "client_ip": "203.0.113.79", "remote_ip": "127.0.0.1", "key": knownValues[0]},
	} {
		for name, value := range want {
			if got := fmt.Sprint(lines[i][name]); got != value {
				t.Errorf("%s in line %d is %q, want %q", name, i, got, value)
			}
		}
	}
}
