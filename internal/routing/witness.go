package routing

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	maphandler "github.com/caddyserver/caddy/v2/modules/caddyhttp/map"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
)

// A witness is a request that stands for all of a description, such as POST /login. It goes through the
// routes of a server as they are configured; no handler or matcher runs except those that look at the path
// alone. Where a matcher depends on what the description leaves open, it goes both ways, so that whatever
// happens on none of its ways happens to no such request (decision 177).

// Witnessed are the ways of a witness. It is empty if there are too many of them, or if a handler
// of another module may have decided: then nothing is known.
type Witnessed []way

// way is one way of a witness past a handler, the target.
type way struct {
	reached     bool     // the target
	unmatched   bool     // the description itself doesn't match there
	excluded    bool     // by a matcher of a route around the target
	by          string   // the handler that answers in the end, or ""
	refuses     bool     // it answers with an error
	answerer    any      // its module
	named       bool     // a route behind the target is for paths of its own
	taken       Requests // of the first route with paths that took the witness before the target
	isDirective bool     // it has one handler with a matcher, and no block
	alternative bool     // the target is in another route of a group
	unknown     bool     // a handler of another module has decided
	meets       bool     // the matchers that are asked there are known to match

	respelled [2]string // the path as sent and there, if the description has only one of them

	through  []any             // the handlers that it has surely passed until the target
	noted    map[string]noted  // what handlers have set or removed until the target: fields, variables, families of placeholders
	sent     http.Header       // the fields of the request there: what is noted and not here is removed
	captured []json.RawMessage // the matchers until the target that may set placeholders of regular expressions
}

// noted is what a handler has made of a field or variable.
type noted struct {
	text   string
	surely bool // it ran, and the text has no placeholder
}

// maxWays bounds the ways of one witness.
const maxWays = 256

// Witness sends the requests of a description to the handler.
func (p *Place) Witness(r Requests) Witnessed { return p.witness(r, nil, nil) }

// WitnessStranger does so for a stranger, who has an address of the Internet and sends no fields, cookies or
// parameters. Whatever authenticates refuses him.
func (p *Place) WitnessStranger(r Requests) Witnessed { return p.witness(r, honest, nil) }

// WitnessLiar does so for a stranger who sends whatever makes the matchers match that lies reports.
func (p *Place) WitnessLiar(r Requests, lies func(caddy.ModuleMap) bool) Witnessed {
	return p.witness(r, lies, nil)
}

// isStranger reports whether the witness is a stranger.
func (w *witness) isStranger() bool { return w.lies != nil }

// honest are the lies of a stranger who tells none.
func honest(caddy.ModuleMap) bool { return false }

func (p *Place) witness(r Requests, lies func(caddy.ModuleMap) bool, asked caddy.ModuleMap) (all Witnessed) {
	if p.Anywhere || p.InErrors {
		return nil
	}
	if p.around == nil {
		p.around = p.view.around(p.Module)
	}
	r.Hosts = p.hostsOf(r)
	for _, one := range p.asSent(r) {
		w := &witness{view: p.view, target: p.Module, around: p.around, all: one, lies: lies, asked: asked}
		for more := true; more; more = w.next() {
			if w.run(); w.unknown || len(all) == maxWays {
				return nil
			}
			all = append(all, w.way)
		}
	}
	return all
}

// maxPrefixes bounds the prefixes that handlers may have removed from a path.
const maxPrefixes = 16

// asSent returns the requests, each with at most one path, as clients may send them: a handler before this one may
// have made the path of another one.
func (p *Place) asSent(r Requests) (all []Requests) {
	prefixes := []string{""}
	known := each(p.before, func(n Node) bool {
		module, ok := n.Module.(*rewrite.Rewrite)
		if !ok {
			return true
		}
		for _, outer := range prefixes {
			prefixes = append(prefixes, outer+"/"+strings.Trim(module.StripPathPrefix, "/"))
		}
		return module.StripPathPrefix != "" && len(prefixes) <= maxPrefixes
	})
	for _, prefix := range prefixes[1:] {
		for _, path := range r.Paths {
			sent := r
			sent.Paths = []string{prefix + path}
			all = append(all, sent)
		}
	}
	return append(all, r.onePath(!known)...)
}

// onePath returns the requests with each of their paths, and, if others is true, with any.
func (r Requests) onePath(others bool) (all []Requests) {
	for _, path := range r.Paths {
		one := r
		one.Paths = []string{path}
		all = append(all, one)
	}
	if r.Paths == nil || others {
		r.Paths = nil
		all = append(all, r)
	}
	return all
}

// hostsOf returns the hosts of requests: without any of their own, those of the handler's site.
func (p *Place) hostsOf(r Requests) []string {
	if r.Hosts != nil {
		return r.Hosts
	}
	for _, around := range slices.Backward(p.Around) {
		if hosts := hostsOf(around); hosts != nil && !slices.ContainsFunc(around, func(a Requests) bool { return a.Hosts == nil }) {
			return hosts
		}
	}
	return nil
}

// Excluded is why no witness reaches a handler in a route that matches none of them.
const Excluded = "the route around it doesn't match them"

// Never says why no witness reaches the handler; "" if one may.
func (all Witnessed) Never() (why string) {
	for _, w := range all {
		switch {
		case w.reached:
			return ""
		case w.excluded:
			why = Excluded
		case why == "" && w.by != "":
			why = w.by + " before it answers them"
		case why == "":
			why = "a route before it takes them"
		}
	}
	return why
}

// Unanswered reports whether witnesses reach the handler, and none of them an answer behind it. An error that is
// for paths of its own is an answer.
func (all Witnessed) Unanswered() (unanswered bool, by string) {
	for _, w := range all {
		switch {
		case w.reached && w.by != "" && (!w.refuses || w.named):
			return false, ""
		case w.reached:
			unanswered, by = true, w.by
		}
	}
	return unanswered, by
}

// Before returns a handler that answers witnesses that don't reach the target, or "".
func (all Witnessed) Before() string {
	for _, w := range all {
		if !w.reached && !w.excluded && !w.alternative && w.by != "" {
			return w.by
		}
	}
	return ""
}

// Elsewhere reports whether handlers in another route of a group answer witnesses.
func (all Witnessed) Elsewhere() bool {
	return slices.ContainsFunc(all, func(w way) bool { return !w.reached && w.alternative && w.by != "" })
}

// Unmatched reports whether no witness that reaches the handler is one of the description there.
func (all Witnessed) Unmatched() bool {
	return all.every(func(w way) bool { return w.unmatched })
}

// Answerers returns the modules of the handlers that answer witnesses which have reached the target, or haven't.
func (all Witnessed) Answerers(reached bool) (modules []any) {
	for _, w := range all {
		if w.reached == reached && w.answerer != nil {
			modules = append(modules, w.answerer)
		}
	}
	return modules
}

// every reports whether witnesses reach the handler, and something holds on all ways to it.
func (all Witnessed) every(holds func(way) bool) bool {
	return all.Reaches() && !slices.ContainsFunc(all, func(w way) bool { return w.reached && !holds(w) })
}

// Reaches reports whether a witness may reach the handler.
func (all Witnessed) Reaches() bool {
	return slices.ContainsFunc(all, func(w way) bool { return w.reached })
}

// Refused reports whether an error answers witnesses that don't reach the handler.
func (all Witnessed) Refused() bool {
	return slices.ContainsFunc(all, func(w way) bool { return !w.reached && w.refuses })
}

// Passed returns a path that a proxy before the handler takes, unless that is meant; or "".
func (all Witnessed) Passed() string {
	for _, w := range all {
		if !w.reached && !w.excluded && w.by == "reverse_proxy" && len(w.taken.Paths) > 0 && !w.isDirective && !w.alternative {
			return w.taken.Paths[0]
		}
	}
	return ""
}

// Respelled returns a path of witnesses as clients send it and as it is at the target, if on all ways only one of
// them is a path of the description; or "".
func (all Witnessed) Respelled() (sent, here string) {
	for _, w := range all {
		if w.reached && w.respelled == [2]string{} {
			return "", ""
		} else if w.reached {
			sent, here = w.respelled[0], w.respelled[1]
		}
	}
	return sent, here
}

// Set says whether handlers before the target may have set a field of the request, such as Remote-User, or a family
// of placeholders, such as http.auth. on some ways to it, and whether on all.
func (all Witnessed) Set(name string) (some, every bool) {
	some, every = !all.Reaches(), true
	for _, w := range all {
		_, isNoted := w.noted[name]
		some, every = some || w.reached && isNoted, every && (!w.reached || isNoted)
	}
	return some, every
}

// Texts returns the texts that handlers before the target may have given a placeholder; "" where it isn't set.
func (all Witnessed) Texts(name string) (texts []string) {
	for _, w := range all {
		if w.reached {
			texts = append(texts, w.noted[name].text)
		}
	}
	return texts
}

// Removes reports whether a field of the request is removed on all ways to the target.
func (all Witnessed) Removes(field string) bool {
	return all.every(func(w way) bool { return w.noted[field].surely && w.sent[field] == nil })
}

// MayCapture reports whether a matcher before the target, or one of the description, may have set placeholders of the
// regular expression of a name.
func (all Witnessed) MayCapture(name string) bool {
	named := func(raw json.RawMessage) bool { return bytes.Contains(raw, []byte(name)) }
	return !all.Reaches() || slices.ContainsFunc(all, func(w way) bool { return w.reached && slices.ContainsFunc(w.captured, named) })
}

// Through reports whether all ways to the handler lead through another one.
func (all Witnessed) Through(module any) bool {
	return all.every(func(w way) bool { return slices.Contains(w.through, module) })
}

// witness is a request that is on its way.
type witness struct {
	view    *View
	target  any // the module of the handler
	around  map[*Route]bool
	all     Requests                   // the description, with at most one path
	lies    func(caddy.ModuleMap) bool // whether a stranger makes matchers match; nil for others
	choices []bool                     // where it may go both ways, in order: whether it goes in
	chosen  int                        // the choices made

	way
	request   *http.Request
	asked     caddy.ModuleMap   // the matchers that are asked where it arrives
	known     map[string]noted  // what handlers have set or removed until here
	matchers  []json.RawMessage // that were asked and may set placeholders
	passed    []any             // handlers
	literal   bool              // its path is known
	rewritten bool              // it isn't the one of the description
	groups    map[string]bool   // with a matched route
	depth     int
}

// run sends the witness on its way, with the choices so far.
func (w *witness) run() {
	w.way, w.chosen, w.rewritten, w.groups, w.depth, w.known, w.matchers, w.passed = way{}, 0, false, make(map[string]bool), 0, nil, nil, nil
	path := "/"
	if w.literal = len(w.all.Paths) == 1 && !strings.ContainsAny(w.all.Paths[0], "*{"); w.literal {
		path = w.all.Paths[0]
	}
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Header: make(http.Header), RemoteAddr: netip.AddrPortFrom(w.view.peer(), 1).String(), Proto: "HTTP/1.1"}
	if len(w.all.Methods) > 0 {
		r.Method = w.all.Methods[0]
	}
	if w.isStranger() {
		r.Header.Set("User-Agent", browser)
	}
	w.request = Prepare(w.view.Server, r)
	w.routes(w.view.main)
}

// browser is the User-Agent of a stranger.
const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// strangersAddress is the address of a stranger, and localAddress that of a proxy on the server's machine.
var strangersAddress, localAddress = netip.MustParseAddr("9.9.9.9"), netip.MustParseAddr("127.0.0.1")

// peer returns the address that a stranger's requests come from.
func (v *View) peer() netip.Addr {
	if v.LocalAddress() != "" {
		return localAddress
	}
	return strangersAddress
}

// LocalAddress returns the address of a server that only a proxy on its own machine reaches, and that doesn't trust
// it: it listens at loopback addresses or sockets for hosts of elsewhere. It returns "" for others.
func (v *View) LocalAddress() (listens string) {
	isHere := func(host string) bool {
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		return err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasPrefix(host, "{")
	}
	if _, speaks := ProxyProtocol(v.Server); speaks || TrustsProxies(v.Server) || !slices.ContainsFunc(v.Hosts, func(host string) bool { return !isHere(host) }) {
		return ""
	}
	for _, listens = range v.Server.Listen {
		address, err := caddy.ParseNetworkAddress(listens)
		if ip, _ := netip.ParseAddr(address.Host); err != nil || !address.IsUnixNetwork() && address.Host != "localhost" && !ip.IsLoopback() {
			return ""
		}
	}
	return listens
}

// next prepares the next way, and reports whether there is one.
func (w *witness) next() bool {
	for i := len(w.choices) - 1; i >= 0; i-- {
		if w.choices[i] {
			w.choices = append(w.choices[:i:i], false)
			return true
		}
	}
	return false
}

// choose reports whether the witness goes in, where it may go both ways.
func (w *witness) choose() bool {
	if w.chosen == len(w.choices) {
		w.choices = append(w.choices, true)
	}
	w.chosen++
	return w.choices[w.chosen-1]
}

// routes follows routes, and reports whether the witness continues after them.
func (w *witness) routes(routes []Route) (goesOn bool) {
	if w.depth++; w.depth > maxDepth {
		w.unknown = true
		return false
	}
	defer func() { w.depth-- }()
	for i := range routes {
		r, holds := &routes[i], w.around[&routes[i]]
		if r.Group != "" && w.groups[r.Group] {
			continue
		}
		how := w.matches(r.Requests)
		if !holds && r.inert && how == maybe {
			each(r.Handlers, func(n Node) bool {
				w.note(n, false)
				return true
			})
			continue
		}
		if how == no || how == maybe && !w.choose() {
			w.excluded = w.excluded || holds && !w.reached
			continue
		}
		if r.Group != "" {
			w.groups[r.Group] = true
		}
		w.enter(routes, r)
		for _, n := range r.Handlers {
			if !w.handler(n) {
				return false
			}
		}
		if r.Terminal {
			return false
		}
	}
	return true
}

// enter notes that the witness enters one of several routes.
func (w *witness) enter(routes []Route, r *Route) {
	i := slices.IndexFunc(r.Requests, func(a Requests) bool { return a.Paths != nil })
	w.named = w.named || w.reached && i >= 0
	if !w.reached && i >= 0 && w.taken.Paths == nil {
		w.taken, w.isDirective = r.Requests[i], len(r.Handlers) > 0 && r.Handlers[0].Name != "subroute"
	}
	w.alternative = w.alternative || r.Group != "" && !w.around[r] && slices.ContainsFunc(routes, func(other Route) bool {
		return other.Group == r.Group && holds(other.Handlers, w.target)
	})
}

// holds reports whether the target is one of the handlers, or in their routes.
func holds(handlers []Node, target any) bool {
	return !each(handlers, func(n Node) bool { return n.Module != target })
}

// around returns the routes around a handler.
func (v *View) around(target any) map[*Route]bool {
	found := make(map[*Route]bool)
	var look func(routes []Route) (holds bool)
	look = func(routes []Route) (holds bool) {
		for i := range routes {
			for _, n := range routes[i].Handlers {
				inside := n.Module == target
				for _, list := range n.Lists {
					inside = look(list.Routes) || inside
				}
				if inside {
					found[&routes[i]], holds = true, true
				}
			}
		}
		return holds
	}
	look(v.main)
	for _, routes := range v.named {
		look(routes)
	}
	return found
}

// isInert reports whether it makes no difference for the way of a request whether it matches the route.
func (r *Route) isInert() bool {
	return r.Group == "" && !r.Terminal && each(r.Handlers, func(n Node) bool {
		return !n.Foreign && n.Name != "rewrite" && n.Name != "invoke" && n.Name != "authentication" && n.Name != "reverse_proxy" &&
			n.Name != "acme_server" && n.Name != "file_server" && !answersAll(n.Name, n.Module)
	})
}

// handler follows one handler, and reports whether the witness continues after it.
func (w *witness) handler(n Node) (goesOn bool) {
	switch {
	case n.Module == w.target && n.Module != nil:
		w.reached, w.unmatched, w.meets = true, w.matchesSet(w.all.Set) == no, w.matchesSet(w.asked) == yes
		if mine := NewRequests(w.all.Set).Paths; w.literal && w.rewritten && mine != nil {
			if sent, here := w.all.Paths[0], w.request.URL.Path; covers([]string{sent}, mine) == no || covers([]string{here}, mine) == no {
				w.respelled = [2]string{sent, here}
			}
		}
		w.noted, w.sent, w.captured = maps.Clone(w.known), w.request.Header.Clone(), slices.Concat(w.matchers, capturing(w.all.Set))
		w.through = w.passed
	case n.Name == "invoke":
		name, _ := n.Fields["name"].(string)
		if invoke, ok := n.Module.(*caddyhttp.Invoke); ok {
			name = invoke.Name
		}
		return w.routes(w.view.named[name])
	case n.Foreign || n.Module == nil:
		w.unknown = true
		return false
	case n.Name == "rewrite":
		w.rewrite(n)
	case n.Name == "authentication" && w.isStranger():
		w.by, w.refuses = n.Name, true
		return false
	}
	w.note(n, true)
	if n.Name == "reverse_proxy" { // as forward_auth does, it sets fields by what another server says
		each([]Node{n}, func(nested Node) bool {
			w.note(nested, false)
			return true
		})
	}
	for _, list := range n.Lists {
		if !list.ForErrors && n.Name != "intercept" && (n.Name == "subroute" || w.choose()) && !w.routes(list.Routes) {
			return false
		}
	}
	switch mayAnswer := n.Name == "reverse_proxy" || n.Name == "file_server"; {
	case answersAll(n.Name, n.Module) || n.Name == "acme_server":
	case mayAnswer && w.reached && w.choose():
	case w.isStranger() && n.Name == "reverse_proxy": // it asks whether he may pass, as forward_auth does
	default:
		return true
	}
	w.by, w.refuses, w.answerer = cmp.Or(n.Answers(), n.Name), w.refusedBy(n), n.Module
	return false
}

// note notes the fields and variables that a handler sets or removes, surely or perhaps.
func (w *witness) note(n Node, surely bool) {
	set := func(name string, texts ...string) {
		if w.known == nil {
			w.known = make(map[string]noted)
		}
		text := strings.Join(texts, ", ")
		w.known[name] = noted{text, surely && !strings.Contains(text, "{")}
	}
	if surely {
		w.passed = append(w.passed, n.Module)
	}
	switch module := n.Module.(type) {
	case *caddyauth.Authentication:
		set("http.auth.", "{")
	case *maphandler.Handler:
		for _, destination := range module.Destinations {
			set(strings.Trim(destination, "{}"), "{")
		}
	case *caddyhttp.VarsMiddleware:
		for name, value := range *module {
			set("http.vars."+name, fmt.Sprint(value))
			caddyhttp.SetVar(w.request.Context(), name, value)
		}
	case *headers.Handler:
		if module.Request == nil {
			return
		}
		for _, field := range module.Request.Delete {
			set(http.CanonicalHeaderKey(field))
			w.request.Header.Del(field)
		}
		for field, values := range module.Request.Set {
			set(http.CanonicalHeaderKey(field), values...)
			w.request.Header[http.CanonicalHeaderKey(field)] = values
		}
		for field := range module.Request.Add {
			set(http.CanonicalHeaderKey(field), "{")
		}
		for field := range module.Request.Replace {
			set(http.CanonicalHeaderKey(field), "{")
		}
	}
}

// asks says whether a matcher of fields or variables matches, if handlers have decided about all of them.
func (w *witness) asks(name string, raw json.RawMessage) (answer, bool) {
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil || name != "header" && name != "vars" {
		return maybe, false
	}
	for key := range values {
		key = map[string]string{"header": http.CanonicalHeaderKey(key), "vars": "http.vars." + key}[name]
		if set, ok := w.known[key]; !ok || !set.surely {
			return maybe, ok
		}
	}
	return w.ask(name, raw), true
}

// refusedBy reports whether a handler that answers the witness answers with an error.
func (w *witness) refusedBy(n Node) bool {
	switch handler := n.Module.(type) {
	case *caddyhttp.StaticResponse:
		return handler.Abort || strings.HasPrefix(string(handler.StatusCode), "4") || strings.HasPrefix(string(handler.StatusCode), "5")
	case *caddyhttp.StaticError:
		return true
	}
	return n.Name == "file_server" && w.all.Methods != nil && !slices.Contains(w.all.Methods, "GET") && !slices.Contains(w.all.Methods, "HEAD")
}

// rewrite changes the path of the witness, if it can be known.
func (w *witness) rewrite(n Node) {
	module, ok := n.Module.(*rewrite.Rewrite)
	w.rewritten = true
	if !ok || !w.literal || module.Method != "" || len(module.PathRegexp) > 0 || slices.ContainsFunc(PlaceholderNames(module.URI), func(name string) bool {
		return !strings.HasPrefix(name, "http.request.uri") && !strings.HasPrefix(name, "http.request.orig_uri")
	}) {
		w.literal = false
		return
	}
	module.Rewrite(w.request, w.request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer))
}

// answer says whether a matcher matches the requests of a description.
type answer int

const (
	no answer = iota
	maybe
	yes
)

// Is reports whether a set of matchers is known to match a stranger's requests of a description, wherever they come from.
func (p *Place) Is(r Requests, set caddy.ModuleMap) bool {
	if set["vars"] != nil || set["header"] != nil { // handlers on the way may set them
		return p.witness(r, honest, set).every(func(w way) bool { return w.meets })
	}
	r.Hosts = p.hostsOf(r)
	return !slices.ContainsFunc(r.onePath(false), func(one Requests) bool {
		w := &witness{view: &View{Server: p.view.Server, Hosts: p.view.Hosts}, all: one, lies: honest}
		w.run()
		return w.matchesSet(set) != yes
	})
}

// Shares reports whether a key is known to be the same for two strangers, whose requests of the descriptions differ in
// all that they may: the address, the query, and whatever the descriptions and the site leave open.
func (p *Place) Shares(key string, all []Requests) bool {
	var two [2]*caddy.Replacer
	for i, address := range []netip.Addr{strangersAddress, strangersAddress.Next()} {
		if peer := p.view.peer(); peer == localAddress {
			address = peer
		}
		one := func(given func(Requests) []string, others ...string) string {
			if common := given(all[0]); len(common) == 1 && !strings.Contains(common[0], "*") && !slices.ContainsFunc(all, func(r Requests) bool { return !slices.Equal(given(r), common) }) {
				return common[0]
			}
			return others[i]
		}
		host := one(p.hostsOf, "a.example", "b.example")
		r := &http.Request{Proto: "HTTP/1.1", Header: make(http.Header), Host: host, RemoteAddr: netip.AddrPortFrom(address, uint16(i+1)).String(),
			Method: one(func(r Requests) []string { return r.Methods }, "GET", "POST"),
			URL:    &url.URL{Path: one(func(r Requests) []string { return r.Paths }, "/a", "/b"), RawQuery: strconv.Itoa(i)}}
		two[i] = Prepare(p.view.Server, r).Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	}
	return !slices.ContainsFunc(PlaceholderNames(key), func(name string) bool {
		first, _ := two[0].GetString(name)
		second, _ := two[1].GetString(name)
		return p.Anywhere || first == "" || first != second
	})
}

// matches says whether one of several matcher sets matches. Without any all requests match.
func (w *witness) matches(sets []Requests) answer {
	for _, set := range sets {
		w.matchers = append(w.matchers, capturing(set.Set)...)
	}
	if len(sets) == 0 {
		return yes
	}
	most := no
	for _, set := range sets {
		if set.Hosts == nil || covers(w.all.Hosts, set.Hosts) != no { // most routes are for other sites
			most = max(most, w.matchesSet(set.Set))
		}
	}
	return most
}

// capturing returns the matchers of a set that may set placeholders of regular expressions.
func capturing(set caddy.ModuleMap) (found []json.RawMessage) {
	for name, raw := range set {
		if strings.HasSuffix(name, "_regexp") || name == "expression" || name == "not" || name == "file" {
			found = append(found, raw)
		}
	}
	return found
}

func (w *witness) matchesSet(set caddy.ModuleMap) answer {
	least := yes
	for name, raw := range set {
		least = min(least, w.matchesOne(name, raw))
	}
	return least
}

// beginsElsewhere matches patterns of which no path is one, because paths begin with a slash.
var beginsElsewhere = regexp.MustCompile(`^\^[\w-][^|]*$`)

// matchesOne says whether a matcher matches.
func (w *witness) matchesOne(name string, raw json.RawMessage) answer {
	requests := NewRequests(caddy.ModuleMap{name: raw})
	switch name {
	case "method":
		return w.sentBy(requests.Methods)
	case "host":
		return covers(w.all.Hosts, requests.Hosts)
	case "endpoint":
		most := yes
		if requests.Partial {
			most = maybe
		}
		return min(most, w.sentBy(requests.Methods), w.below(requests.Paths))
	case "path":
		if w.literal {
			return w.ask(name, raw)
		}
		return w.below(requests.Paths)
	case "path_regexp":
		if w.literal {
			return w.ask(name, raw)
		}
		var m struct{ Pattern string }
		_ = json.Unmarshal(raw, &m)
		if beginsElsewhere.MatchString(m.Pattern) {
			return no
		}
	case "not":
		if len(requests.negated) > 0 { // none is left of a loaded one
			return yes - w.matches(requests.negated)
		}
	case "protocol":
		return w.speaks(raw)
	default:
		if answer, decided := w.asks(name, raw); decided {
			return answer
		}
		switch {
		case w.isStranger() && w.lies(caddy.ModuleMap{name: raw}):
			return yes
		case w.isStranger():
			return w.strangers(name, raw)
		}
	}
	return maybe
}

// ask asks a matcher of the path.
func (w *witness) ask(name string, raw json.RawMessage) answer {
	for _, m := range NewRequests(caddy.ModuleMap{name: raw}).Matchers() {
		if p, ok := m.(caddy.Provisioner); ok && p.Provision(caddy.Context{}) != nil {
			return maybe
		}
		if m, ok := m.(caddyhttp.RequestMatcherWithError); ok {
			switch matches, err := m.MatchWithError(w.request); {
			case err != nil:
				return maybe
			case matches:
				return yes
			}
			return no
		}
	}
	return maybe
}

// sentBy says whether methods are among those of a matcher. Strangers who may send any send GET and POST.
func (w *witness) sentBy(methods []string) answer {
	switch {
	case methods == nil:
		return yes
	case w.all.Methods == nil && w.isStranger() && slices.Contains(methods, http.MethodGet) && slices.Contains(methods, http.MethodPost):
		return yes
	}
	return covers(w.all.Methods, methods)
}

// below says whether the path, as sent or as it is now, is below patterns.
func (w *witness) below(patterns []string) answer {
	switch current := []string{w.request.URL.Path}; {
	case w.literal && w.rewritten:
		return max(covers(w.all.Paths, patterns), covers(current, patterns))
	case w.rewritten:
		return maybe
	}
	return covers(w.all.Paths, patterns)
}

// covers says whether a matcher's patterns match those of a description, of which no pattern means all.
func covers(mine, patterns []string) answer {
	everything := slices.ContainsFunc(patterns, func(p string) bool { return p == "*" || p == "/*" })
	meets := func(a string) bool {
		return slices.ContainsFunc(patterns, func(b string) bool { return mayMeet(a, b) })
	}
	isWithin := func(a string) bool { return slices.ContainsFunc(patterns, func(b string) bool { return isIn(a, b) }) }
	switch {
	case everything:
		return yes
	case mine == nil:
		return maybe
	case !slices.ContainsFunc(mine, func(a string) bool { return !isWithin(a) }):
		return yes
	case !slices.ContainsFunc(mine, meets):
		return no
	}
	return maybe
}

// speaks says whether the server speaks HTTP or HTTPS.
func (w *witness) speaks(raw json.RawMessage) answer {
	var protocol string
	_ = json.Unmarshal(raw, &protocol)
	server := w.view.Server
	plain := slices.ContainsFunc(server.Listen, func(address string) bool { return !strings.HasSuffix(address, ":443") })
	switch {
	case protocol != "http" && protocol != "https" || plain:
		return maybe
	case protocol == "https":
		return yes
	}
	return no
}

// strangers says whether a matcher of what strangers don't have matches.
func (w *witness) strangers(name string, raw json.RawMessage) answer {
	switch name {
	case "client_ip", "remote_ip":
		var m struct{ Ranges []string }
		_ = json.Unmarshal(raw, &m)
		for _, r := range m.Ranges {
			network, err := caddyhttp.CIDRExpressionToPrefix(r)
			if err != nil {
				continue
			}
			within := func(proxy string) bool { // all that come through it have its address
				proxies, err := caddyhttp.CIDRExpressionToPrefix(proxy)
				return err == nil && proxies.Bits() >= network.Bits() && network.Contains(proxies.Addr())
			}
			if network.Contains(w.view.peer()) || name == "remote_ip" && slices.ContainsFunc(TrustedRanges(w.view.Server), within) {
				return yes
			}
		}
		return no
	case "header":
		var fields map[string][]string
		if json.Unmarshal(raw, &fields) == nil {
			for field, values := range fields {
				if isAgent := http.CanonicalHeaderKey(field) == "User-Agent"; strings.HasPrefix(field, "{") || isAgent && w.ask(name, raw) != no {
					return maybe
				} else if isAgent {
					return no
				}
				if values == nil { // the field must be absent
					continue
				}
				return no
			}
			return yes
		}
	case "vars":
		var values map[string]any
		_ = json.Unmarshal(raw, &values)
		own := func(name string) bool {
			return !strings.Contains(name, "{") && caddyhttp.GetVar(w.request.Context(), name) == nil
		}
		if slices.ContainsFunc(slices.Collect(maps.Keys(values)), own) { // no handler on his way has set it
			return no
		}
	case "query", "header_regexp", "verified_bot", "signed_bot":
		return no
	}
	return maybe
}
