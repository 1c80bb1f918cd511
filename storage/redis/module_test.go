package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

const secret = "s3cr3t@:/%"

func provisioned(t *testing.T, text string) (*Store, error) {
	t.Helper()
	s := new(Store)
	if err := s.UnmarshalCaddyfile(caddyfile.NewTestDispenser(text)); err != nil {
		return nil, err
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	return s, s.Provision(ctx)
}

// URLs may have users, databases and ports, and placeholders may have any value.
func TestURLs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pass@word")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REDIS_PASSWORD", secret)
	t.Setenv("REDIS_URL", "rediss://u:p%40ss@h:1/2")
	for text, want := range map[string]serverURL{
		"redis://h":                             {addresses: []string{"h:6379"}},
		"redis://h:7000/3":                      {addresses: []string{"h:7000"}, database: 3},
		"rediss://a,b:7001":                     {addresses: []string{"a:6379", "b:7001"}, tls: true},
		"valkey://[::1]":                        {addresses: []string{"[::1]:6379"}},
		"redis://u:p%40ss@h":                    {addresses: []string{"h:6379"}, username: "u", password: "p@ss"},
		"redis://:{env.REDIS_PASSWORD}@h/":      {addresses: []string{"h:6379"}, password: secret},
		"redis://u:{file." + file + "}@h:1/1":   {addresses: []string{"h:1"}, username: "u", password: secret, database: 1},
		"{env.REDIS_URL}":                       {addresses: []string{"h:1"}, username: "u", password: "p@ss", database: 2, tls: true},
		"redis://{env.REDIS_PASSWORD}:x@h,i:2/": {addresses: []string{"h:6379", "i:2"}, username: secret, password: "x"},
	} {
		if got, err := parseURL(text, caddy.NewReplacer()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// The error for an invalid option has a remedy, and never a password.
func TestMistakes(t *testing.T) {
	t.Setenv("REDIS_PASSWORD", secret)
	for text, want := range map[string]string{
		`redis`:                                                    "<url> is missing; the syntax is redis <url>",
		`redis redis://h redis://i`:                                "got another word, where nothing more is expected",
		`redis h:6379`:                                             "must begin with redis://",
		`redis http://u:s3cr3t@h`:                                  "must begin with redis://",
		`redis redis+sentinel://u:s3cr3t@h`:                        "write the option sentinel",
		`redis redis://u:s3cr3t@`:                                  "has no host",
		`redis redis://u:s3cr3t%zz@h`:                              "%25",
		`redis redis://u:s3cr3t@h/x`:                               "number of a database",
		`redis redis://u:s3cr3t@h?tls=1`:                           "takes no parameters",
		`redis redis://u:{env.NOT_SET_ANYWHERE}@h`:                 "NOT_SET_ANYWHERE",
		"redis redis://h {\n prefix tally\n}":                      "must have a part in braces",
		"redis redis://h {\n prefix {t}*\n}":                       "letters, digits and braces",
		"redis redis://h {\n tls\n}":                               "write rediss://",
		"redis rediss://h {\n tls {\n ca /no/such/file\n }\n}":     "no such file",
		"redis redis://h {\n sentinel main u:s3cr3t@a:1\n}":        "expected addresses as host:26379",
		"redis redis://h {\n sentinel main\n}":                     "the syntax is sentinel <primary> <address...>",
		"redis redis://h {\n password s3cr3t s3cr3t\n}":            "password: got another word",
		"redis redis://h {\n password s3cr3t\n password s3cr3t\n}": "given twice",
		"redis redis://h {\n passwort s3cr3t\n}":                   "unrecognized option",
		"redis redis://h {\n sentinel main a {\n user x\n }\n}":    "expected username or password",
		"redis rediss://h {\n tls {\n certificate one\n }\n}":      "the syntax is certificate <file> <key_file>",
		"redis rediss://h {\n tls {\n certificate a b\n }\n}":      "tls: certificate",
		"redis rediss://h {\n tls {\n insecure\n }\n}":             "expected ca, server_name or certificate",
	} {
		_, err := provisioned(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: got %v, want %q and no password", text, err, want)
		}
	}
}

// The identity and the address of a store, and its errors, contain no password. Another password
// makes another identity.
func TestSecretsAreNotShown(t *testing.T) {
	t.Setenv("REDIS_PASSWORD", secret)
	s, err := provisioned(t, "redis redis://u:{env.REDIS_PASSWORD}@127.0.0.1:1 {\n sentinel main 127.0.0.1:1 {\n password {env.REDIS_PASSWORD}\n }\n}")
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	_, openErr := s.Open(context.Background(), time.Millisecond)
	if openErr == nil {
		t.Fatal("a server that isn't there was opened")
	}
	for _, shown := range []string{s.Identity(), s.Address(), string(config), openErr.Error()} {
		if strings.Contains(shown, "s3cr3t") {
			t.Errorf("%q shows the password", shown)
		}
	}
	other, err := provisioned(t, "redis redis://u:another@127.0.0.1:1 {\n sentinel main 127.0.0.1:1 {\n password {env.REDIS_PASSWORD}\n }\n}")
	if err != nil {
		t.Fatal(err)
	}
	if other.Identity() == s.Identity() || other.Address() != s.Address() {
		t.Errorf("with another password: %s at %s, before %s at %s", other.Identity(), other.Address(), s.Identity(), s.Address())
	}
}

// rights are the rights listed in docs/servers.md.
const rights = "~{tally}:* +@read +@write +@scripting +@connection -@dangerous +info +time +role +cluster|slots"

// A user of the server's ACL with the rights listed in the docs can do all that the store does. A
// wrong password and a missing right are reported.
func TestUsers(t *testing.T) {
	redis := testserver.Redis(t)
	redis.Must(t, append([]string{"ACL", "SETUSER", "caddy", "on", ">" + secret}, strings.Fields(rights)...)...)
	redis.Must(t, "ACL", "SETUSER", "reader", "on", ">"+secret, "~*", "+@read", "+@connection")
	t.Setenv("REDIS_PASSWORD", secret)
	for user, want := range map[string]string{
		"caddy:{env.REDIS_PASSWORD}":  "",
		"reader:{env.REDIS_PASSWORD}": "docs/servers.md",
		"caddy:wrong":                 "check user and password",
	} {
		s, err := provisioned(t, "redis redis://"+user+"@"+redis.Address())
		if err != nil {
			t.Fatal(err)
		}
		opened, err := s.Open(context.Background(), time.Second)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: got %v, want %q", user, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		exercise(t, opened)
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Behind sentinels, users and passwords of the server and of the sentinels are read again for each
// connection. The rights listed in the docs suffice there.
func TestSentinelPasswordsAreReadAnew(t *testing.T) {
	redis := testserver.Redis(t)
	sentinel := testserver.Sentinel(t, "main", redis)
	folder := t.TempDir()
	rotate := func(ofServer, ofSentinel string) {
		redis.Must(t, append([]string{"ACL", "SETUSER", "caddy", "reset", "on", ">" + ofServer}, strings.Fields(rights)...)...)
		sentinel.Must(t, "ACL", "SETUSER", "watcher", "reset", "on", ">"+ofSentinel, "&*", "+@all")
		for name, password := range map[string]string{"server": ofServer, "sentinel": ofSentinel} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(password+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	open := func(s *Store) storage.Store {
		t.Helper()
		opened, err := s.Open(context.Background(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened.Close() })
		return opened
	}
	rotate("first", "first of sentinels")
	s, err := provisioned(t, fmt.Sprintf("redis redis://h {\n username caddy\n password {file.%s/server}\n sentinel main %s {\n username watcher\n password {file.%[1]s/sentinel}\n }\n}", folder, sentinel.Address()))
	if err != nil {
		t.Fatal(err)
	}
	exercise(t, open(s))
	rotate("s@cond", "s@cond of sentinels")
	open(s)
}

// exercise makes calls of every kind.
func exercise(t *testing.T, opened storage.Store) {
	t.Helper()
	s, ctx := opened.(storage.Network), context.Background()
	limit, err := limiter.New(limiter.Params{Amount: 5, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	claims := []storage.Claim{{ID: 1, Key: storage.Key{1}, Limit: limit, Claim: limiter.Claim{Min: 1, Want: 1}}}
	grants, clients, records := make([]limiter.Grant, 1), []storage.Client{{Key: storage.Key{1}}}, make([]reputation.Record, 1)
	term := &storage.Term{Clock: wallClock{}}
	_, timeErr := s.Time(wallClock{}, 0)
	_, resetsErr := s.Resets(ctx, 0)
	_, newsErr := s.News(ctx, storage.Seen{})
	_, joinErr := s.Join(ctx, 1, 0, 1)
	_, statsErr := s.Stats(ctx)
	_, sweepErr := s.Sweep(ctx, term)
	_, addErr := s.SwapValue(ctx, "a", nil, []byte("b"))
	_, valuesErr := s.Values(ctx)
	_, actsErr := s.Acts(ctx, storage.Audit, 1, 1)
	for what, err := range map[string]error{
		"time": timeErr, "resets": resetsErr, "news": newsErr, "join": joinErr, "stats": statsErr, "sweep": sweepErr,
		"add": addErr, "values": valuesErr, "acts": actsErr,
		"claim":  s.ClaimFor(ctx, term, clients, records, claims, grants),
		"punish": s.Punish(ctx, term, []storage.Offense{{Client: clients[0], Offense: reputation.Offense{Violation: reputation.Violation{At: 1}}}}, records),
		"probe":  s.Probe(ctx, term, claims, grants), "leave": s.Leave(ctx, 1), "audit": s.Audit(ctx, storage.Audit, new(storage.Act)),
		"reset": s.Reset(ctx, term, []storage.Reset{{ID: 1, Limit: 1, Key: storage.Key{1}}}),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// wallClock is a clock for calls whose time makes no difference.
type wallClock struct{}

func (wallClock) Read() storage.Reading {
	now := time.Now().UnixNano()
	return storage.Reading{Wall: now, Steady: now, Source: storage.Source{1}}
}
