package matcher

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
	"github.com/caddy-tally/caddy-tally/internal/webbot"
)

func init() {
	caddy.RegisterModule(SignedBot{})
}

// SignedBot matches requests that a bot has signed (Web Bot Auth): an HTTP Message Signature
// (RFC 9421) by an Ed25519 key of a file, for this host, and not expired. No key is fetched.
//
// The signature covers the request as the client sent it. It may be used again, by whoever has seen
// it, until it expires: at most a day later.
type SignedBot struct {
	// The file of public keys: a JWK Set, as bots publish it at
	// `/.well-known/http-message-signatures-directory`, with at most 1000 keys. It is read again when
	// it changes; if it can't be used then, the previous keys stay in force. Required.
	File string `json:"file,omitempty"`

	// Values of `kid` or `name` in the file. Only keys that have one of them match. Default: all keys.
	Names []string `json:"names,omitempty"`

	keys *webbot.Keys
}

// CaddyModule returns the Caddy module information.
func (SignedBot) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.matchers.signed_bot", New: func() caddy.Module { return new(SignedBot) }}
}

// Provision reads the file. A name without a key is no error: bots change their keys.
func (s *SignedBot) Provision(ctx caddy.Context) (err error) {
	if err := s.check(); err != nil {
		return err
	}
	log := ctx.Logger().With(zap.String("file", s.File))
	if s.keys, err = webbot.Open(s.File,
		func(err error) { logChange(log, "the file of bots' keys", "keys", err) }); err != nil {
		return fmt.Errorf("signed_bot: %w", err)
	}
	for _, name := range s.Names {
		if !s.keys.Has(name) {
			log.Warn("no key in the file has this name, so it matches nothing", zap.String("name", name))
		}
	}
	return nil
}

func (s *SignedBot) check() error {
	if s.File == "" {
		return errors.New("signed_bot: a file of keys is missing: write signed_bot /etc/caddy/bots.json")
	}
	if err := checkCommas(s.Names); err != nil {
		return fmt.Errorf("signed_bot: %w", err)
	}
	return nil
}

// MatchWithError reports whether a bot has signed a request. It never returns an error.
func (s *SignedBot) MatchWithError(r *http.Request) (bool, error) {
	if len(r.Header["Signature-Input"]) == 0 {
		return false, nil
	}
	if original := Original(r); original != nil {
		r = original
	}
	message := webbot.Message{Method: r.Method, Scheme: "http", Authority: r.Host, Target: r.RequestURI,
		Header: r.Header}
	if IsHTTPS(r) {
		message.Scheme = "https"
	}
	return s.keys.Verify(&message, s.Names, time.Now()), nil
}

// UnmarshalCaddyfile sets up the matcher from Caddyfile tokens. Syntax:
//
//	signed_bot <file> [<names...>]
func (s *SignedBot) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return grammar.Line("signed_bot <file> [<names...>]", &s.File, &s.Names).Then(s.check).ReadAll(d)
}

// Interface guards
var (
	_ caddy.Provisioner                 = (*SignedBot)(nil)
	_ caddyfile.Unmarshaler             = (*SignedBot)(nil)
	_ caddyhttp.RequestMatcherWithError = (*SignedBot)(nil)
)
