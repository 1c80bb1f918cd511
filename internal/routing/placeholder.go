package routing

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// PlaceholderNames returns the names of the placeholders in s, in order, including repetitions. Escaped and
// unbalanced braces are text.
func PlaceholderNames(s string) []string {
	names, _ := scanPlaceholders(s)
	return names
}

// scanPlaceholders finds placeholders with Caddy's own scan, so that they are the ones that are
// replaced during a request. Like that scan it gives up at a hundred unclosed braces.
func scanPlaceholders(s string) (names []string, err error) {
	collect := func(name string, _ any) (any, error) {
		names = append(names, name)
		return nil, nil
	}
	_, err = caddy.NewEmptyReplacer().ReplaceFunc(s, collect)
	return names, err
}

// CheckPlaceholders returns an error about the first placeholder in s that this Caddy can't provide, with the
// most similar name that it can. Caddy itself treats such a placeholder as empty, so all clients
// would be counted as one.
func CheckPlaceholders(s string) error {
	names, err := scanPlaceholders(s)
	if err != nil {
		return fmt.Errorf("reading placeholders: %w", err)
	}
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

func checkName(name string) error {
	if name == "" {
		return errors.New(`placeholder {} has no name: write \{\} for the braces themselves`)
	}
	if isKnown(name) || moduleProvides(name) {
		return nil
	}
	return unknownError{name, nearest(name)}
}

func isKnown(name string) bool { return inDynamicFamily(name) || provides(name) }

// unknownError is the error about a placeholder that nothing provides.
type unknownError struct{ name, near string }

// Error implements error.
func (u unknownError) Error() string {
	if u.near != "" {
		return fmt.Sprintf("unknown placeholder {%s}: did you mean {%s}? %s", u.name, u.near, otherwise(u.name))
	}
	return fmt.Sprintf("unknown placeholder {%s}: neither Caddy nor a module in it provides this name; %s", u.name,
		otherwise(u.name))
}

// MayBeMapped reports whether err concerns a placeholder that the map directive may set: one
// without a dot that resembles no other.
func MayBeMapped(err error) bool {
	u, ok := errors.AsType[unknownError](err)
	return ok && (u.near == "" || slices.Contains(addressNames, u.name)) && !strings.Contains(u.name, ".")
}

// otherwise returns a hint for the case that a name is intended. A name without a dot can only be
// set by the map directive, and can't be distinguished from a typo.
func otherwise(name string) string {
	if !strings.Contains(name, ".") {
		return fmt.Sprintf("if the `map` directive sets it, give it a dotted name such as {map.%s}", name)
	}
	return fmt.Sprintf("if a directive sets it, write `vars NAME {%s}` and use {http.vars.NAME}", name)
}

// inDynamicFamily reports whether the name has a namespace in which names are created during
// requests, or by the operator.
func inDynamicFamily(name string) bool {
	if name == "http.error" || strings.HasPrefix(name, "http.auth.") && strings.HasSuffix(name, ".error") {
		return true
	}
	for _, family := range dynamicFamilies {
		if rest, ok := strings.CutPrefix(name, family); ok && rest != "" {
			return true
		}
	}
	return false
}

// provides reports whether Caddy knows the name in any request. It uses Caddy's own replacer, so it
// also knows the placeholders of later versions.
func provides(name string) (known bool) {
	if strings.HasSuffix(name, ".") { // Caddy accepts the empty header field
		return false
	}
	// The request lacks the server's additions. If a name makes Caddy use them, Caddy knows the
	// name.
	defer func() { known = recover() != nil || known }()
	r := &http.Request{URL: new(url.URL), Header: make(http.Header), TLS: new(tls.ConnectionState)}
	if cookie, ok := strings.CutPrefix(name, "http.request.cookie."); ok {
		r.AddCookie(&http.Cookie{Name: cookie}) //nolint:gosec // a request, not a response; before Caddy 2.11.5 it knows no other
	}
	_, known = caddyhttp.NewTestReplacer(r).Get(name)
	return known
}

// moduleProvides reports whether one of the first two segments of the name is the name of a module
// that is neither Caddy's nor ours. Modules don't declare their placeholders, but commonly name
// them after themselves.
func moduleProvides(name string) bool {
	foreign := foreignWords(modules())
	segments := strings.SplitN(name, ".", 3)
	if len(segments) < 2 {
		return false
	}
	return foreign[segments[0]] || foreign[segments[1]]
}

// origin is a module's ID and its package.
type origin struct{ ID, Package string }

// modules returns the modules of this Caddy.
func modules() []origin {
	var origins []origin
	for _, id := range caddy.Modules() {
		if info, err := caddy.GetModule(id); err == nil {
			origins = append(origins, origin{id, packageOf(info.New())})
		}
	}
	return origins
}

// packageOf returns the package path of the type of v.
func packageOf(v any) string {
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath()
}

// foreignWords returns the words of the IDs of other people's modules, except Caddy's own words:
// `geoip2` of `http.handlers.geoip2`.
func foreignWords(modules []origin) map[string]bool {
	words := make(map[string]bool)
	for _, m := range modules {
		if !isCaddy(m.Package) && !isOurs(m.Package) {
			setWords(words, m.ID, true)
		}
	}
	for _, m := range modules {
		if isCaddy(m.Package) {
			setWords(words, m.ID, false)
		}
	}
	for _, name := range slices.Concat(usualPlaceholders, dynamicFamilies, requestFamilies) {
		setWords(words, name, false)
	}
	return words
}

// isCaddy reports whether a package belongs to Caddy.
func isCaddy(pkg string) bool {
	return strings.HasPrefix(pkg, "github.com/caddyserver/caddy/v2")
}

// isOurs reports whether a package belongs to this module.
func isOurs(pkg string) bool {
	module := strings.TrimSuffix(packageOf(origin{}), "/internal/routing")
	return pkg == module || strings.HasPrefix(pkg, module+"/")
}

// setWords sets the segments of a dotted name, and their parts between `_`, to value.
func setWords(words map[string]bool, name string, value bool) {
	for segment := range strings.SplitSeq(name, ".") {
		words[segment] = value
		for part := range strings.SplitSeq(segment, "_") {
			words[part] = value
		}
	}
}
