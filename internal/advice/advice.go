// Package advice has the warnings about a config as values: checks return them, and a [List] logs
// them and keeps them for operators.
package advice

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// Kind is what advice is about. Sentences are for people: programs look at the kind.
type Kind int

// Kinds of advice: the five questions that docs/advice.md asks, and what has a page of its own.
const (
	Other Kind = iota
	Reach
	Choice
	Set
	Effect
	Address
	UntrustedProxy // whether an address is a proxy of the operator
	BeforeTLS
)

// pages are the parts of the documentation about a kind.
var pages = map[Kind]string{
	Reach: "docs/advice.md#can-a-request-reach-it", Choice: "docs/advice.md#can-the-client-choose-it",
	Set:    "docs/advice.md#will-it-ever-be-set-or-match",
	Effect: "docs/advice.md#can-it-do-what-it-says", Address: "docs/advice.md#who-is-the-client",
	UntrustedProxy: "docs/advice.md#who-is-the-client",
	BeforeTLS:      "docs/reference/before-tls.md",
}

// See returns the part of the documentation that explains it, or "".
func (k Kind) See() string { return pages[k] }

// ListenerWrapper is the fix of [BeforeTLS].
const ListenerWrapper = "listener_wrappers { rate_limit; tls }, a line each, in servers of the global options"

// Advice describes a problem in a config, where it is, and its fix.
type Advice struct {
	Kind    Kind
	Problem string   // the problem and its consequences
	Fix     string   // the replacement
	Zone    string   // the zone's name, or ""
	Handler string   // the handler's name, if it isn't one of ours, or ""
	Path    string   // the file that it concerns, or ""
	Root    string   // the served folder that the file lies in, or ""
	Source  string   // the place in a config file, or ""
	Server  []string // the server's addresses, or none
	Refused bool     // the config can't work: the problem is an error
}

// err returns the advice as a config error.
func (a Advice) err() error {
	err := fmt.Errorf("%s; write %s", a.Problem, a.Fix)
	if a.Zone != "" {
		err = fmt.Errorf("zone %q: %w", a.Zone, err)
	}
	return caddyconf.AtSource(err, a.Source)
}

// log writes a warning.
func (a Advice) log(log *zap.Logger) {
	var fields []zap.Field
	for _, f := range [][2]string{{"write", a.Fix}, {"zone", a.Zone}, {"handler", a.Handler}, {"path", a.Path},
		{"root", a.Root}, {"at", a.Source}, {"see", a.Kind.See()}} {
		if f[1] != "" {
			fields = append(fields, zap.String(f[0], f[1]))
		}
	}
	if len(a.Server) > 0 {
		fields = append(fields, zap.Strings("server", a.Server))
	}
	log.Warn(a.Problem, fields...)
}

// List is the advice given about a config, while it was loaded and since. Its zero value is empty.
type List struct {
	earlier []Advice // given about the config before

	mu    sync.Mutex
	given []Advice
}

// Follow keeps advice that was given about an earlier config out of the log: a reload doesn't repeat it. It is called
// before advice is given.
func (l *List) Follow(earlier *List) { l.earlier = earlier.All() }

// Give logs each advice that is new, or returns an error for the first one that is more than a warning.
func (l *List) Give(log *zap.Logger, found ...Advice) error {
	if i := slices.IndexFunc(found, func(a Advice) bool { return a.Refused }); i >= 0 {
		return found[i].err()
	}
	for _, a := range found {
		if l.Keep(a) && !slices.ContainsFunc(l.earlier, func(b Advice) bool { return reflect.DeepEqual(a, b) }) {
			a.log(log)
		}
	}
	return nil
}

// Keep adds advice without logging it, and reports whether it is new: a snippet may be in several sites.
func (l *List) Keep(a Advice) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.given, a.repeats) {
		return false
	}
	l.given = append(l.given, a)
	return true
}

// Drop takes back advice that no longer holds.
func (l *List) Drop(a Advice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given = slices.DeleteFunc(l.given, func(b Advice) bool { return reflect.DeepEqual(a, b) })
}

// repeats reports whether both say the same about the same place. In JSON, places have no names.
func (a Advice) repeats(b Advice) bool {
	return a.Problem == b.Problem && a.Zone == b.Zone && a.Source == b.Source && slices.Equal(a.Server, b.Server) &&
		(a.Source != "" || len(a.Server) > 0)
}

// All returns the advice given so far, in its order.
func (l *List) All() []Advice {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.given)
}
