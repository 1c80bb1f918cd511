package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// Families of placeholders.
const (
	headerFamily      = "http.request.header."
	CertificateFamily = "http.request.tls.client."
)

// entry is what is known of a matcher set of allow.
type entry struct {
	needs []string // placeholders without whose values it admits nobody
	alone []*Place // where nothing else tells operators from others
}

var errEverybody = errors.New(
	"everybody can send such a request: write allow client_ip 192.0.2.0/24, with the networks of the operators")

// checkAllow returns an error if clients can meet a matcher set of allow, and advice if that depends on
// modules of others. The address of the sender in the set makes it safe.
func (dash *Dashboard) checkAllow(survey *Survey, places []*Place) (entries []entry, found []advice.Advice, err error) {
	for _, set := range dash.AllowRaw {
		names := NamesOfSet(set)
		if survey.bodyUse(names) != (enforce.BodyUse{}) {
			return nil, nil, errors.New("a placeholder of the body is what the client sends: write allow client_ip 192.0.2.0/24, with the networks of the operators")
		}
		var e entry
		for _, p := range places {
			in, guard := p.Inputs(set), p.guard()
			needs := names
			switch {
			case in.admits():
				if guard == nil {
					e.alone = append(e.alone, p)
				}
			case guard != nil:
				needs = slices.Concat(names, NamesOfSet(guard))
			case in.Written == "" && p.Authenticates() != "":
				e.needs = append(e.needs, p.provesIdentity())
			case in.Written == "":
				return nil, nil, errEverybody
			case p.Earlier.Anything:
				e.needs = append(e.needs, in.Written)
				found = append(found, advice.Advice{Source: dash.Source, Problem: fmt.Sprintf("rate_limit_dashboard: allow: {%s} may be what the client has sent, unless a handler before this one sets it", in.Written),
					Fix: "remote_ip with the address of the proxy beside it"})
			default:
				return nil, nil, p.errWritten(in.Written)
			}
			own, err := p.addNeeds(nil, needs)
			if err != nil {
				return nil, nil, err
			}
			e.needs = append(e.needs, own...)
		}
		entries = append(entries, e)
	}
	return entries, found, nil
}

// errWritten returns the error of an allow that asks for what clients write.
func (p *Place) errWritten(name string) error {
	field, isField := strings.CutPrefix(name, headerFamily)
	problem := "may have any value, and is what the client has sent: nothing before this handler sets or removes it"
	fix := fmt.Sprintf("put forward_auth with copy_headers %s before it; or, if a proxy in front sets the field, write allow {, and in it header %[1]s * and remote_ip with its address", field)
	switch {
	case p.Later.Has(name):
		problem, _, _ = p.Judge(name)
	case strings.HasPrefix(name, CertificateFamily):
		problem, fix = "is in certificates that anybody can make: client_auth asks for one and doesn't verify it", "write mode require_and_verify and trust_pool file ca.pem into client_auth"
	case p.Earlier.Has(name) && isField && len(routing.PlaceholderNames(strings.Join(p.Earlier.Made(name), ""))) == 0:
		problem, fix = "is what the client has sent where the handler that sets it doesn't run", fmt.Sprintf("put request_header -%s before that handler, in a route block around both", field)
	case p.Earlier.Has(name):
		problem, fix = "depends on what the client has sent", "write allow client_ip 192.0.2.0/24, with the networks of the operators"
	}
	return fmt.Errorf("{%s} %s: %s", name, problem, fix)
}

// admits reports whether a matcher set with these inputs admits some clients only.
func (in Inputs) admits() bool { return in.peer || in.Written == "" && (in.Others || in.Secret != "") }

// guard returns the matchers of a surrounding route that admit some clients only, or nil.
func (p *Place) guard() caddy.ModuleMap {
	for _, route := range p.Around {
		admits := func(r routing.Requests) bool {
			return p.Inputs(r.Set).admits() && (len(route) == 1 || !slices.ContainsFunc(NamesOfSet(r.Set), p.mayLack))
		}
		if !slices.ContainsFunc(route, func(r routing.Requests) bool { return !admits(r) }) {
			return route[0].Set
		}
	}
	return nil
}

// provesIdentity returns a placeholder that has a value if an earlier handler has authenticated the user.
func (p *Place) provesIdentity() string {
	if p.Earlier.Has("http.reverse_proxy.") { // users of basic_auth need no matcher
		return "http.reverse_proxy.status_code"
	}
	return UserID
}

// addNeeds adds to the placeholders without a value for a stranger those among names, and what their values are made
// of. A comparison with nothing may hold for everybody, so it is an error if nothing before this place gives one a
// value.
func (p *Place) addNeeds(needs, names []string) (all []string, err error) {
	for _, name := range names {
		if field, isField := strings.CutPrefix(name, headerFamily); isField {
			name = headerFamily + http.CanonicalHeaderKey(field)
		}
		if !p.mayLack(name) || slices.Contains(needs, name) {
			continue
		}
		if problem := p.neverGives(name); problem != "" {
			return nil, fmt.Errorf("{%s} %s, and a comparison with nothing may hold for everybody: put the handler that sets it, such as basic_auth, before the dashboard, in the same block", name, problem)
		}
		needs = append(needs, name)
		for _, text := range p.Earlier.Made(name) {
			if needs, err = p.addNeeds(needs, routing.PlaceholderNames(text)); err != nil {
				return nil, err
			}
		}
	}
	return needs, nil
}

// mayLack reports whether a placeholder has no value unless a handler, the environment or a certificate gives it one.
func (p *Place) mayLack(name string) bool {
	if strings.HasPrefix(name, headerFamily) {
		return p.Earlier.Has(name)
	}
	return !isEverybodys(name) && !strings.HasPrefix(name, "http.request.remote") || strings.HasPrefix(name, "env.") ||
		strings.HasPrefix(name, "file.")
}

// neverGives returns the problem with a placeholder to which nothing before this place gives a value, or "".
func (p *Place) neverGives(name string) string {
	begins := func(family string) bool { return strings.HasPrefix(name, family) }
	switch {
	case p.Earlier.Has(name) || p.Earlier.Anything ||
		slices.ContainsFunc([]string{"env.", "file.", "http.matchers.", "http.regexp.", enforce.OurPlaceholders},
			begins):
		return ""
	case name == "" || name == "http.vars."+caddyhttp.ClientIPVarKey ||
		name == "http.vars."+caddyhttp.TrustedProxyVarKey:
		return ""
	case begins("http.error.") || begins(CertificateFamily):
		if !p.NeverSets(name) {
			return ""
		}
	}
	if problem, _, _ := p.Judge(name); problem != "" {
		return problem
	}
	return "is never set: nothing before this handler sets it"
}

// addressesInSet are what may be addresses and networks in the JSON of a matcher set.
var addressesInSet = regexp.MustCompile(`[0-9a-fA-F.:]{2,}(/[0-9]+)?`)

// admitsStrangers reports whether a loaded matcher set admits a request of a client without user, fields and
// certificate, whatever its address. Matchers that look elsewhere than at a request aren't asked (decision 71).
func (p *Place) admitsStrangers(raw caddy.ModuleMap, set caddyhttp.MatcherSet) bool {
	addresses := []netip.Addr{netip.MustParseAddr("9.9.9.9"), netip.MustParseAddr("151.101.1.9"),
		netip.MustParseAddr("2a00:1450::9")}
	for _, raw := range WithNegated(raw) {
		for name, value := range raw {
			if name == "file" || !slices.Contains(everybodys, name) &&
				!slices.Contains([]string{"not", "expression", "client_ip", "remote_ip"}, name) {
				return false
			}
			for _, text := range addressesInSet.FindAllString(string(value), -1) {
				if network, err := networkOf(text); err == nil {
					addresses = append(addresses, network.Addr())
				}
			}
		}
	}
	admits := func(method string) bool {
		return !slices.ContainsFunc(addresses, func(addr netip.Addr) bool {
			matches, err := set.MatchWithError(p.stranger(method, addr))
			return !matches || err != nil
		})
	}
	return admits(http.MethodGet) || admits(http.MethodPost)
}

// stranger returns a request with nothing but an address.
func (p *Place) stranger(method string, addr netip.Addr) *http.Request {
	r, _ := http.NewRequestWithContext(context.Background(), method, "/", nil) // the arguments are valid
	r.RemoteAddr = net.JoinHostPort(addr.String(), "1")
	if r.Host = "localhost"; len(p.View.Hosts) > 0 {
		r.Host = p.View.Hosts[0]
	}
	return routing.Prepare(p.View.Server, r)
}
