package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// The words that may begin lines: in the directive, in a zone, and in the global option.
func handlerWords() []string { return new(Handler).options(nil).words() }
func zoneWords() []string    { return new(Zone).options(nil).words() }
func appWords() []string     { return new(App).options().words() }

// blockOption is a word that begins a line of a block, and a function that reads the line.
type blockOption struct {
	word string
	read func(*caddyfile.Dispenser) error
}

// blockOptions are those of a block.
type blockOptions []blockOption

// words returns the words of the options.
func (o blockOptions) words() (words []string) {
	for _, option := range o {
		words = append(words, option.word)
	}
	return words
}

// read reads the current line, and reports whether its word is known.
func (o blockOptions) read(d *caddyfile.Dispenser) (known bool, err error) {
	i := slices.IndexFunc(o, func(option blockOption) bool { return option.word == d.Val() })
	if i < 0 {
		return false, nil
	}
	return true, o[i].read(d)
}

// line returns a function that reads a line of the block. about begins the error about an unknown
// word.
func (o blockOptions) line(about string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		if known, err := o.read(d); known {
			return err
		}
		return d.Errf("%sunrecognized option %q: expected %s", about, d.Val(), caddyconf.OrList(o.words()))
	}
}

// to returns a function that reads a line into a field.
func to[T any](read func(*caddyfile.Dispenser, *T) error, field *T) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error { return read(d, field) }
}

// offOrBlock reads `off`, which sets disabled, or a block of options.
func offOrBlock(d *caddyfile.Dispenser, option string, disabled *bool, options blockOptions, check func() error) error {
	switch args := d.RemainingArgs(); {
	case len(args) == 1 && args[0] == "off":
		*disabled = true
		return nil
	case len(args) > 0:
		return d.Errf("%s: expected off or a block, got %q", option, args[0])
	}
	return caddyconf.EachChecked(d, options.line(option+": "), check)
}

// word returns the function for an option with one of some words, which may be given once.
func word(field *string, words ...string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) (err error) {
		if *field != "" {
			return d.Errf("%s already specified: %s", d.Val(), *field)
		}
		*field, err = caddyconf.OneOf(d, words...)
		return err
	}
}

// unrecognized returns the error about the current word, which isn't among the known words of a
// block. what is the word's noun at the beginning of the error.
func unrecognized(d *caddyfile.Dispenser, what string, known []string) error {
	word := d.Val()
	hint := insteadOf(word, strings.Join(append([]string{word}, d.RemainingArgs()...), " "), known)
	if hint == "" {
		hint = "expected " + caddyconf.OrList(known)
	}
	return d.Errf("%s: %s", what, hint)
}

// insteadOf returns a replacement for a line that a block doesn't have, or "" if there is no good
// guess.
func insteadOf(word, line string, known []string) string {
	subject, other := "it", insteadOfLine(line)
	if strings.HasPrefix(other, leaveOut) {
		return other
	} else if other != "" {
		subject, line = other, other
		word, _, _ = strings.Cut(other, " ")
	}
	isZone, isHandler := slices.Contains(known, "limit"), slices.Contains(known, "zone")
	switch ban := insteadOfBan(strings.Fields(line)[1:]); {
	case word == "ban" && ban != "":
		return ban
	case other != "" && slices.Contains(known, word):
		return "write " + line
	case isZone && word == "zone":
		return "a zone can't stand in another one; is the } missing that ends the one before it?"
	case isZone && word == "burst":
		return "write it behind the limit: limit 5/1m " + line
	case isZone && (matcher.IsMatcher(word) || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "@")):
		return "write match " + line
	case slices.Contains(handlerWords(), word) && isZone:
		return "write it beside the zones and not into one: " + line
	case slices.Contains(handlerWords(), word):
		return "write " + subject + " into the directive rate_limit of a site, and not into the global option"
	case isHandler && slices.Contains([]string{"true", "yes", "on", "1"}, word):
		return "the option before it takes no value: leave it out"
	case isHandler && (word == "tier" && len(routing.PlaceholderNames(line)) == 0 || slices.Contains(appWords(), word) && !slices.Contains(zoneWords(), word)),
		isZone && slices.Contains(appWords(), word):
		return fmt.Sprintf("write it into the global option at the top of the file: {, rate_limit {, %s, } and }, each on a line of its own", line)
	case slices.Contains(zoneWords(), word) && isHandler:
		return fmt.Sprintf("write it into a zone: zone login {, %s and }, each on a line of its own", line)
	case slices.Contains(zoneWords(), word):
		return "write " + subject + " into a zone of the directive rate_limit of a site, and not into the global option"
	case isDirective(word):
		return fmt.Sprintf("%s is a directive of the site; is a } missing above?", word)
	}
	return caddyconf.DidYouMean(word, known)
}

// isDirective reports whether a word is a known directive of sites. Caddy has no list of
// directives.
func isDirective(word string) bool {
	return isModule("http.handlers."+word) || slices.Contains([]string{
		"basic_auth", "bind", "handle", "handle_errors", "handle_path", "header", "import", "log", "php_fastcgi", "redir",
		"request_header", "respond", "root", "route", "tls", "try_files", "uri",
	}, word)
}

func isModule(id string) bool {
	_, err := caddy.GetModule(id)
	return err == nil
}

// insteadOfPer returns the probably intended words for words after `per`.
func insteadOfPer(words []string) string {
	word := strings.Trim(words[0], "{}$")
	if other := instead("per", strings.Join(append([]string{word}, words[1:]...), " ")); other != "" {
		return other
	}
	switch lower := strings.ToLower(word); {
	case len(routing.PlaceholderNames(words[0])) > 0:
		return "per key " + words[0]
	case routing.ExpandShorthand(lower) != lower:
		return "per key {" + lower + "}"
	}
	return "per " + strings.Join(perKinds, ", ") + " or key <value>"
}

// guestStores are the stores that exist only in a Caddy that was built with their packages, which
// are in the folder storage.
var guestStores = []string{"redis", "postgres"}

// unknownStore returns an error about the name of a store that this Caddy doesn't have.
func unknownStore(d *caddyfile.Dispenser, name string) error {
	if slices.Contains(guestStores, name) {
		return d.Errf("store: this Caddy was built without %q: build it with xcaddy build --with %s --with %[2]s/storage/%[1]s", name, caddyconf.ModulePath)
	}
	if scheme, _, isURL := strings.Cut(name, "://"); isURL {
		// A URL may contain a password, which mustn't get into messages.
		return d.Errf("store: the name of a store comes first, got a URL: write %s", ofScheme(scheme))
	}
	if strings.Contains(name, "/") {
		return d.Errf("store: the name of a store comes first, got %q: write store sqlite %[1]s", name)
	}
	return d.Errf("store: there is no %q: write %s", name, caddyconf.OrList(moduleNames("rate_limit.stores")))
}

// ofScheme returns how to write a store whose URLs have a scheme.
func ofScheme(scheme string) string {
	for _, store := range guestStores {
		if strings.HasPrefix(scheme, store) {
			return fmt.Sprintf("store %s %s://…", store, scheme)
		}
	}
	return "store redis redis://… or store postgres postgres://…"
}

// moduleNames returns the names of all modules in a namespace, in ascending order.
func moduleNames(namespace string) (names []string) {
	for _, m := range caddy.GetModules(namespace) {
		names = append(names, m.ID.Name())
	}
	return names
}
