package redis

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// UnmarshalCaddyfile sets up the store from Caddyfile tokens. Syntax:
//
//	redis <url> {
//		username <name>
//		password <password>
//		prefix   <text>
//		tls {
//			ca          <file>...
//			server_name <name>
//			certificate <file> <key file>
//		}
//		sentinel <master> <address>... {
//			username <name>
//			password <password>
//		}
//	}
func (s *Store) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the store
	if !d.NextArg() {
		return d.Err("store redis: the URL of the server is missing: write store redis redis://host:6379")
	}
	s.URL = d.Val()
	if d.NextArg() {
		return d.Err("store redis: takes one URL: separate several nodes of a cluster by commas")
	}
	return caddyconf.EachOption(d, s.unmarshalOption)
}

func (s *Store) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "username":
		return text(d, &s.Username)
	case "password":
		return text(d, &s.Password)
	case "prefix":
		if err := text(d, &s.Prefix); err != nil {
			return err
		}
		if err := checkPrefix(s.Prefix); err != nil {
			return d.WrapErr(err)
		}
		return nil
	case "tls":
		s.TLS = new(TLS)
		if d.NextArg() {
			return d.ArgErr()
		}
		return caddyconf.EachOption(d, s.TLS.unmarshalOption)
	case "sentinel":
		s.Sentinel = new(Sentinel)
		return s.Sentinel.unmarshal(d)
	}
	return d.Errf("unrecognized option %q: expected username, password, prefix, tls or sentinel", d.Val())
}

func (t *TLS) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "ca":
		if t.CA = d.RemainingArgs(); len(t.CA) == 0 {
			return d.ArgErr()
		}
		return nil
	case "server_name":
		return text(d, &t.ServerName)
	case "certificate":
		if !d.AllArgs(&t.Certificate, &t.Key) {
			return d.Err("certificate: expected two files: write certificate <file> <key file>")
		}
		return nil
	}
	return d.Errf("unrecognized option %q: expected ca, server_name or certificate", d.Val())
}

func (s *Sentinel) unmarshal(d *caddyfile.Dispenser) error {
	words := d.RemainingArgs()
	if len(words) < 2 {
		return d.Err("sentinel: expected the name of the primary and addresses: write sentinel <name> <host:26379>")
	}
	s.Master, s.Addresses = words[0], words[1:]
	return caddyconf.EachOption(d, func(d *caddyfile.Dispenser) error {
		switch d.Val() {
		case "username":
			return text(d, &s.Username)
		case "password":
			return text(d, &s.Password)
		}
		return d.Errf("unrecognized option %q: expected username or password", d.Val())
	})
}

// text reads the argument of an option. It is not shown in errors, since it may be a password.
func text(d *caddyfile.Dispenser, to *string) error {
	option := d.Val()
	if !d.AllArgs(to) {
		return d.Errf("%s: expected one word", option)
	}
	return nil
}

var _ caddyfile.Unmarshaler = (*Store)(nil)
