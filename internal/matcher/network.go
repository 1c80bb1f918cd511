package matcher

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/networks"
)

func init() {
	caddy.RegisterModule(Country{})
	caddy.RegisterModule(ASN{})
}

// Country matches requests by the country of the client's address. It is known from the files that
// `networks` of the `rate_limit` app names; the country of an address that they don't have doesn't
// match, nor does an address that the client may have written itself, in a header field that a
// trusted proxy appends to.
type Country struct {
	// The codes of countries (ISO 3166-1), such as `DE`. Required.
	Codes []string `json:"codes,omitempty"`

	files networks.Files
}

// ASN matches requests by the autonomous system (AS) of the client's address, usually that of its
// provider or hoster. It is known from the files that `networks` of the `rate_limit` app names; an
// address that they don't have doesn't match, nor does one that the client may have written itself,
// in a header field that a trusted proxy appends to.
type ASN struct {
	// The numbers of autonomous systems, such as `AS64496` or `64496`. Required.
	Numbers []string `json:"numbers,omitempty"`

	files networks.Files
	spelt []string // the numbers in their one spelling
}

// CaddyModule returns the Caddy module information.
func (Country) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.matchers.country", New: func() caddy.Module { return new(Country) }}
}

// CaddyModule returns the Caddy module information.
func (ASN) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.matchers.asn", New: func() caddy.Module { return new(ASN) }}
}

// filesWith returns the files that the `rate_limit` app has opened, or an error if none has what a
// matcher needs.
func filesWith(ctx caddy.Context, have func(networks.Files) bool, matcher, what string) (files networks.Files,
	err error) {
	app, err := ctx.App(names.App)
	if err != nil {
		return nil, fmt.Errorf("getting rate_limit app: %w", err)
	}
	if app, ok := app.(interface{ NetworkFiles() networks.Files }); ok {
		files = app.NetworkFiles()
	}
	if !have(files) {
		return nil,
			fmt.Errorf("%s: no file with %s is configured: write networks <file> into the global option rate_limit",
				matcher, what)
	}
	return files, nil
}

// Provision checks the codes, and finds the files.
func (c *Country) Provision(ctx caddy.Context) (err error) {
	if err = c.check(); err == nil {
		c.files, err = filesWith(ctx, networks.Files.HaveCountries, "country", "countries")
	}
	return err
}

func (c *Country) check() error {
	if len(c.Codes) == 0 {
		return errors.New("country: expected the codes of countries, such as country DE AT CH")
	}
	for _, code := range c.Codes {
		if !networks.IsCountry(code) {
			return fmt.Errorf("country: got %q: expected two capital letters, such as DE, separated by blanks", code)
		}
	}
	return nil
}

// Provision checks the numbers, and finds the files.
func (a *ASN) Provision(ctx caddy.Context) (err error) {
	if err = a.check(); err == nil {
		a.files, err = filesWith(ctx, networks.Files.HaveASNs, "asn", "autonomous systems")
	}
	return err
}

func (a *ASN) check() error {
	if len(a.Numbers) == 0 {
		return errors.New("asn: expected the numbers of autonomous systems, such as asn AS64496")
	}
	a.spelt = nil
	for _, number := range a.Numbers {
		asn, ok := networks.ParseASN(number)
		if !ok {
			return fmt.Errorf(
				"asn: got %q: expected the number of an autonomous system, such as AS64496, separated by blanks",
				number)
		}
		a.spelt = append(a.spelt, asn)
	}
	return nil
}

// MatchWithError reports whether the client is in one of the countries. It returns an error for early data.
func (c *Country) MatchWithError(r *http.Request) (bool, error) {
	if IsEarly(r) {
		return false, errEarly
	}
	return slices.Contains(c.Codes, LookUp(r, c.files.Country)), nil
}

// MatchWithError reports whether the client is in one of the autonomous systems. It returns an error for
// early data.
func (a *ASN) MatchWithError(r *http.Request) (bool, error) {
	if IsEarly(r) {
		return false, errEarly
	}
	return slices.Contains(a.spelt, LookUp(r, a.files.ASN)), nil
}

// LookUp looks up the client's address, unless the client may have written or forged it.
func LookUp(r *http.Request, in func(netip.Addr) string) string {
	addr, err := netip.ParseAddr(clientIP(r))
	if err != nil || IsEarly(r) || IsClaimed(r) {
		return ""
	}
	return in(addr)
}

// UnmarshalCaddyfile sets up the matcher from Caddyfile tokens. Syntax:
//
//	country <codes...>
func (c *Country) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return grammar.Line("country <codes...>", &c.Codes).Repeats().Then(c.check).ReadAll(d)
}

// UnmarshalCaddyfile sets up the matcher from Caddyfile tokens. Syntax:
//
//	asn <numbers...>
func (a *ASN) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return grammar.Line("asn <numbers...>", &a.Numbers).Repeats().Then(a.check).ReadAll(d)
}

// Interface guards
var (
	_ caddy.Provisioner                 = (*Country)(nil)
	_ caddyfile.Unmarshaler             = (*Country)(nil)
	_ caddyhttp.RequestMatcherWithError = (*Country)(nil)
	_ caddy.Provisioner                 = (*ASN)(nil)
	_ caddyfile.Unmarshaler             = (*ASN)(nil)
	_ caddyhttp.RequestMatcherWithError = (*ASN)(nil)
)
