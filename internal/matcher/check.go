package matcher

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// CheckSets returns an error about the first matcher that Caddy accepts but no request can match:
// then the matchers' option would silently never take effect. It must be called before the matchers
// are loaded.
func CheckSets(sets caddyhttp.RawMatcherSets) error {
	for _, set := range sets {
		if err := CheckSet(set); err != nil {
			return err
		}
	}
	return nil
}

// CheckSet is CheckSets for one set.
func CheckSet(set caddy.ModuleMap) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if name == "not" {
			if err := checkNot(set[name]); err != nil {
				return err
			}
			continue
		}
		var m Endpoint
		if name == "endpoint" && json.Unmarshal(set[name], &m) == nil {
			if err := checkCommas(slices.Concat(m.Methods, m.Paths)); err != nil {
				return fmt.Errorf("match: endpoint: %w", err)
			}
		}
		check, values := matcherChecks[name], []string(nil)
		if check == nil || json.Unmarshal(set[name], &values) != nil {
			continue
		}
		if line, ok := withoutCommas(values); ok {
			return mistake(name+" "+line, "match: %s: never matches %q, because "+noCommas, name,
				strings.Join(values, " "))
		}
		for _, value := range values {
			if err := check(value, values); err != nil {
				return fmt.Errorf("match: %s: %w", name, err)
			}
		}
	}
	return nil
}

// checkNot checks the operand of a negation. If the operand matches nothing, the negation matches
// everything.
func checkNot(raw json.RawMessage) error {
	var sets caddyhttp.RawMatcherSets
	if json.Unmarshal(raw, &sets) != nil {
		return nil
	}
	if len(sets) == 0 || slices.ContainsFunc(sets, func(set caddy.ModuleMap) bool { return len(set) == 0 }) {
		return mistake("not path /health", "match: not: lacks what it is about")
	}
	return CheckSets(sets)
}

// matcherChecks maps the names of matchers to checks of their values. A check returns an error
// about a value that never matches.
var matcherChecks = map[string]func(value string, all []string) error{
	"path":   checkPath,
	"method": checkMethod,
	"host":   checkHost,
}

// noCommas explains the separation of values. An example follows.
const noCommas = "a list has spaces between its values and no commas"

// withoutCommas joins the values of a comma-separated list with spaces; ok is false if the values
// have no separating commas. It leaves a comma inside a value.
func withoutCommas(values []string) (line string, ok bool) {
	spaced := make([]string, len(values))
	for i, value := range values {
		if i < len(values)-1 {
			value = strings.TrimSuffix(value, ",")
		}
		value = strings.ReplaceAll(value, ",/", " /")
		if parts := strings.Split(value, ","); !slices.ContainsFunc(parts,
			func(part string) bool { return !IsMethod(part) }) {
			value = strings.Join(parts, " ")
		}
		spaced[i] = value
	}
	line = strings.Join(spaced, " ")
	return line, line != strings.Join(values, " ")
}

// checkCommas returns an error about comma-separated values.
func checkCommas(values []string) error {
	if line, ok := withoutCommas(values); ok {
		return mistake(line, "got %q, but "+noCommas, strings.Join(values, " "))
	}
	return nil
}

func checkPath(path string, all []string) error {
	switch {
	case IsMatcher(path) && !strings.HasPrefix(path, "/"), IsMethod(path):
		return severalMatchers(all)
	case strings.HasPrefix(path, "^"), strings.ContainsAny(path, `\$`) && !strings.HasPrefix(path, "/"):
		return fmt.Errorf("never matches %q, which is a regular expression: expected a path, such as /login or /api/*", path)
	case strings.Contains(path, "://"):
		host, rest, _ := strings.Cut(path[strings.Index(path, "://")+3:], "/")
		return mistake("host "+host+" and path /"+rest+", each on a line of its own", "never matches %q, because a path has no host", path)
	case strings.HasPrefix(path, "/") && strings.Contains(path, "?"):
		before, query, _ := strings.Cut(path, "?")
		return mistake(fmt.Sprintf("endpoint %s %s", before, strings.ReplaceAll(query, "&", " ")),
			"never matches %q, because a path has no query", path)
	case strings.Trim(path, "=~") == "" && path != "":
		return mistake("path /login", "never matches %q, which is no path: leave it out", path)
	case path == "":
		return mistake("path /", "never matches an empty path")
	case !strings.ContainsAny(path[:1], "/*{%"):
		return mistake("path /"+strings.TrimLeft(path, "=~/"),
			"never matches %q, because a path begins with a slash", path)
	}
	return nil
}

func checkMethod(method string, all []string) error {
	if IsMatcher(method) || strings.HasPrefix(method, "/") {
		return severalMatchers(all)
	}
	if strings.ContainsAny(method, ", |") {
		split := func(r rune) bool { return strings.ContainsRune(", |", r) }
		return mistake("method "+strings.ToUpper(strings.Join(strings.FieldsFunc(method, split), " ")), "never matches %q", method)
	}
	return nil
}

func checkHost(host string, all []string) error {
	if IsMatcher(host) || strings.HasPrefix(host, "/") {
		return severalMatchers(all)
	}
	if strings.Contains(host, "/") {
		_, name, found := strings.Cut(host, "://")
		if !found {
			name = host
		}
		name, _, _ = strings.Cut(name, "/")
		return mistake("host "+name, "never matches %q, because a host has no scheme and no path", host)
	}
	if strings.HasPrefix(host, ".") {
		return mistake("host *"+host, "never matches %q, because a host doesn't begin with a dot", host)
	}
	if name, port, found := strings.Cut(host, ":"); found && name != "" && strings.Trim(port, "0123456789") == "" {
		return mistake("host "+name, "never matches %q, because hosts are compared without their ports", host)
	}
	return nil
}

// severalMatchers returns the error about a second matcher among the values of one.
func severalMatchers(values []string) error {
	method, path := "", ""
	for _, value := range values {
		switch {
		case IsMethod(value):
			method = " " + strings.ToUpper(value)
		case strings.HasPrefix(value, "/") && path == "":
			path = " " + value
		}
	}
	if path == "" {
		return mistake("a block with each in a line of its own", "got %q, but a line has one matcher", values)
	}
	return mistake(fmt.Sprintf("match%s%s, or a block with each in a line of its own", method, path),
		"got %q, but a line has one matcher", values)
}

// IsMethod reports whether a word is an HTTP method, in any case.
func IsMethod(word string) bool {
	switch strings.ToUpper(word) {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// IsMatcher reports whether a matcher with this name exists.
func IsMatcher(word string) bool {
	_, err := caddy.GetModule("http.matchers." + word)
	return err == nil
}

// MistakeError is an error about a config with its correction.
type MistakeError struct {
	Problem string // what is wrong, and where
	Fix     string // what to write instead
}

// Error implements error.
func (m *MistakeError) Error() string { return m.Problem + ": write " + m.Fix }

func mistake(fix, problem string, args ...any) error {
	return &MistakeError{Problem: fmt.Sprintf(problem, args...), Fix: fix}
}
