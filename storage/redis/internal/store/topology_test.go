package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// On a node of a cluster all keys of a place have one slot, so that batches with many keys work.
func TestCluster(t *testing.T) {
	server, l := testserver.Redis(t, "--cluster-enabled", "yes"), yearly(t)
	server.Must(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	waitUntil(t, "the cluster to be ready", func() bool {
		answer, err := server.Ask("GET", "x")
		return err == nil && !strings.HasPrefix(answer, "-")
	})
	s := opened(t, at(server.Address()))
	mustCharge(t, s, l, 1)
	var claims []storage.Claim
	for i := range byte(100) {
		claims = append(claims, storage.Claim{ID: 2, Key: storage.Key{i}, Former: storage.Key{i, 1}, Limit: l, Claim: limiter.Claim{Min: 1, Want: 1}})
	}
	term := &storage.Term{Clock: steadyClock{1}}
	if err := s.Claim(context.Background(), term, claims, make([]limiter.Grant, len(claims))); err != nil {
		t.Fatal(err)
	}
	if used := mustCharge(t, s, l, 1); used != 2 {
		t.Errorf("%d units are in use, want 2", used)
	}
	wantOneBanned(t, s)
}

// wantOneBanned bans a client, and checks that it is listed.
func wantOneBanned(t *testing.T, s *Store) {
	t.Helper()
	offense := storage.Offense{Client: storage.Client{Key: storage.Key{7}}, Offense: reputation.Offense{
		Violation: reputation.Violation{At: 1e18, Reason: reputation.Trapped}, Ban: reputation.Ban{After: 1, Within: time.Hour, For: time.Hour},
	}}
	if err := s.Punish(context.Background(), &storage.Term{Clock: steadyClock{1}}, []storage.Offense{offense}, make([]reputation.Record, 1)); err != nil {
		t.Fatal(err)
	}
	if banned, err := s.Banned(context.Background(), 1e18, 9); err != nil || len(banned) != 1 || banned[storage.Key{7}].Until != 1e18+int64(time.Hour) {
		t.Errorf("got %v, %v", banned, err)
	}
}

// A killed primary is replaced by its replica, which sentinels promote. Writes that it lacks are
// noticed as lost, and the store works again.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	primary := testserver.Redis(t)
	host, port, _ := net.SplitHostPort(primary.Address())
	replica := testserver.Redis(t, "--replicaof", host+" "+port)
	waitUntil(t, "the replica to follow", func() bool {
		return strings.Contains(replica.MustInfo(t, "replication"), "master_link_status:up")
	})
	sentinel := testserver.Sentinel(t, "main", primary)
	waitUntil(t, "the sentinel to know the replica", func() bool {
		return strings.Contains(sentinel.MustInfo(t, "sentinel"), "slaves=1")
	})
	l := yearly(t)
	open := Opener(Options{Addresses: []string{sentinel.Address()}, Master: "main", Timeout: 5 * time.Second})
	s := openedBy(t, open)
	mustCharge(t, s, l, 5)
	leaveBehind(t, primary, replica)
	if used := mustCharge(t, s, l, 5); used != 10 {
		t.Fatalf("%d units are in use, want 10", used)
	}
	primary.Kill()
	waitUntil(t, "the lost writes to be noticed", func() bool {
		_, err := charge(context.Background(), s, l, 0)
		return errors.Is(err, storage.ErrLostWrites) || errors.Is(err, errBroken)
	})
	var again storage.Store
	waitUntil(t, "the replica to be in use", func() (ok bool) {
		var err error
		again, err = open(context.Background())
		return err == nil
	})
	t.Cleanup(func() { _ = again.Close() })
	if again.Continues(s) {
		t.Error("the store continues one that has lost writes")
	}
	if used := mustCharge(t, again.(*Store), l, 1); used != 6 {
		t.Errorf("%d units are in use, want 6", used)
	}
}

// A server with TLS is trusted if its certificate is.
func TestTLS(t *testing.T) {
	folder := t.TempDir()
	pool := writeCertificate(t, folder)
	port, err := child.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + port
	testserver.Redis(t, "--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", filepath.Join(folder, "cert"), "--tls-key-file", filepath.Join(folder, "key"), "--tls-ca-cert-file", filepath.Join(folder, "cert"))
	o := at(address)
	o.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	mustCharge(t, opened(t, o), yearly(t), 1)
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	var unknown *tls.CertificateVerificationError
	if _, err := Opener(o)(context.Background()); !errors.As(err, &unknown) {
		t.Errorf("a certificate that nobody trusts: %v", err)
	}
}

// writeCertificate writes a certificate for 127.0.0.1 and its key, and returns the pool that trusts
// it.
func writeCertificate(t *testing.T, folder string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		text := pem.EncodeToMemory(block)
		pool.AppendCertsFromPEM(text)
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}
