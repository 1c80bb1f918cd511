package redis

import (
	"fmt"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	redis <url> {
//		username <name>
//		password <secret>
//		prefix <text>
//		tls {
//			ca <file...>
//			server_name <name>
//			certificate <file> <key_file>
//		}
//		sentinel <primary> <address...> {
//			username <name>
//			password <secret>
//		}
//	}
func (s *Store) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the store
	if err := grammar.Line("redis <url>", &s.URL).With(grammar.Block{Rules: s.rules}).Read(d); err != nil {
		return fmt.Errorf("store %w", err)
	}
	return nil
}

func (s *Store) rules() grammar.Rules {
	tls, sentinel := new(TLS), new(Sentinel)
	return grammar.Rules{
		grammar.Line("username <name>", &s.Username),
		grammar.Line("password <secret>", &s.Password),
		grammar.Line("prefix <text>", &s.Prefix).Then(func() error { return checkPrefix(s.Prefix) }),
		grammar.Line("tls").Then(func() error { s.TLS = tls; return nil }).With(grammar.Block{Rules: func() grammar.Rules {
			return grammar.Rules{
				grammar.Line("ca <file...>", &tls.CA),
				grammar.Line("server_name <name>", &tls.ServerName),
				grammar.Line("certificate <file> <key_file>", &tls.Certificate, &tls.Key),
			}
		}}),
		grammar.Line("sentinel <primary> <address...>", &sentinel.Master, &sentinel.Addresses).Then(func() error { s.Sentinel = sentinel; return nil }).With(grammar.Block{Rules: func() grammar.Rules {
			return grammar.Rules{grammar.Line("username <name>", &sentinel.Username), grammar.Line("password <secret>", &sentinel.Password)}
		}}),
	}
}

var _ caddyfile.Unmarshaler = (*Store)(nil)
