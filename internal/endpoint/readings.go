package endpoint

import (
	"bytes"
	"cmp"
	"path"
	"strings"
)

// pathReading holds the possible readings of a path.
type pathReading struct {
	paths    []spelling
	named    int      // number of paths that are the one that was sent; others are guesses
	queries  []string // after an encoded question mark, or a semicolon
	disputed bool     // programs disagree on the effect of `..`
}

func (read *reading) readPath() {
	raw := cmp.Or(read.raw, read.path)
	read.add(read.cleanedOnce())
	decoded := read.decoder.decode(read.path)
	read.addNames(decoded)
	if plain := withoutParameters(decoded, isSlash); plain != decoded {
		read.addNames(plain)
	}
	if i := strings.IndexByte(decoded, '?'); i >= 0 {
		read.queries = append(read.queries, decoded[i+1:])
	}
	if short := cut(decoded); short != decoded {
		read.addNames(withoutParameters(short, isSlash))
	}
	semicolon := strings.IndexByte(raw, ';')
	if semicolon >= 0 { // some programs remove parameters before they decode
		early := read.decoder.decode(withoutParameters(raw, func(c byte) bool { return c == '/' }))
		read.addNames(withoutParameters(cut(early), isSlash))
	}
	if isAuthority(raw) {
		read.addBehindHost()
	}
	read.named = len(read.paths)
	if semicolon >= 0 { // some programs read it as the question mark
		read.addNames(read.decoder.decode(raw[:semicolon]))
		read.queries = append(read.queries, raw[semicolon+1:])
	}
	if hasSession(decoded) {
		read.addNames(withoutSessions(decoded))
	}
	read.disputed = read.disputed && !isOnlyDotted(raw)
}

// cleanedOnce reads a path like Caddy's path matcher.
func (read *reading) cleanedOnce() string {
	cleaned := path.Clean("/" + read.path)
	if cleaned != "/" && strings.HasSuffix(read.path, "/") {
		cleaned += "/"
	}
	return string(appendFolded(make([]byte, 0, len(cleaned)), cleaned))
}

func (read *reading) add(s string) {
	read.decoder.work += len(s)
	for i := range read.paths {
		if read.paths[i].text == s {
			return
		}
	}
	read.paths = append(read.paths, newSpelling(s))
}

// addNames adds the names between slashes or backslashes, trimmed, with dots
// resolved and left alone.
func (read *reading) addNames(s string) {
	read.decoder.work += len(s)
	names := make([]byte, 0, len(s)+1)
	resolved := make([]byte, 0, len(s)+1)
	dotted := false
	for rest := s; rest != ""; {
		var name string
		name, rest = nextName(rest)
		trimmed := trimName(name)
		switch {
		case trimmed != "":
			names, resolved = append(append(names, '/'), trimmed...), append(append(resolved, '/'), trimmed...)
		case strings.Count(name, ".") > 1:
			dotted = true
			names = append(names, "/.."...)
			resolved = resolved[:max(bytes.LastIndexByte(resolved, '/'), 0)]
		}
	}
	read.disputed = read.disputed || dotted
	read.add("/" + strings.TrimPrefix(string(resolved), "/"))
	if dotted {
		read.add(string(names))
	}
}

// nextName splits a path after its first name.
func nextName(s string) (name, rest string) {
	for i := range len(s) {
		if isSlash(s[i]) {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// trimName removes blanks around a name, and dots after it.
func trimName(name string) string {
	if name == "" {
		return ""
	}
	if first, last := name[0], name[len(name)-1]; kinds[first] == plain && kinds[last] == plain {
		return name
	}
	return strings.TrimRightFunc(strings.TrimFunc(name, isBlank), func(c rune) bool { return c == '.' || isBlank(c) })
}

// addBehindHost adds the readings without their first name.
func (read *reading) addBehindHost() {
	for _, path := range read.paths[:len(read.paths):len(read.paths)] {
		behind := "/"
		if end := strings.IndexByte(path.text[1:], '/'); end >= 0 {
			behind = path.text[1+end:]
		}
		read.add(behind)
	}
}

func isSlash(c byte) bool { return c == '/' || c == '\\' }

// isAuthority reports whether a request target begins with `//host`, which parsers of URLs read as
// a host.
func isAuthority(raw string) bool { return len(raw) > 1 && isSlash(raw[0]) && isSlash(raw[1]) }

// isOnlyDotted reports whether a raw path consists of plain names and dots, on which programs
// agree.
func isOnlyDotted(raw string) bool {
	for i := range len(raw) {
		if kinds[raw[i]] == odd || kinds[raw[i]] == slash && i > 0 && raw[i-1] == '/' {
			return false
		}
	}
	return !strings.Contains(raw, "...")
}

// cut removes the text that programs don't see if they use C strings, or parse a URL a second time.
func cut(s string) string {
	if end := strings.IndexAny(s, "\x00?#"); end >= 0 {
		s = s[:end]
	}
	if end := strings.Index(s, "::$"); end >= 0 { // a stream, on Windows
		s = s[:end]
	}
	return s
}

// withoutParameters removes `;…` from each segment.
func withoutParameters(s string, endsSegment func(byte) bool) string {
	if !strings.Contains(s, ";") {
		return s
	}
	kept := make([]byte, 0, len(s))
	skip := false
	for i := range len(s) {
		skip = !endsSegment(s[i]) && (skip || s[i] == ';')
		if !skip {
			kept = append(kept, s[i])
		}
	}
	return string(kept)
}

// hasSession reports whether a path may have a session of ASP.NET in it: /(S(x))/login.
func hasSession(s string) bool {
	for rest := s; ; {
		i := strings.Index(rest, "/(")
		if i < 0 {
			return false
		}
		if rest = rest[i+2:]; len(rest) > 1 && rest[1] == '(' {
			return true
		}
	}
}

// withoutSessions removes segments that are sessions of ASP.NET.
func withoutSessions(s string) string {
	kept := make([]byte, 0, len(s))
	for rest := s; rest != ""; {
		var name string
		name, rest = nextName(rest)
		if isSession := len(name) > 2 && name[0] == '(' && name[2] == '(' && strings.HasSuffix(name, "))"); !isSession {
			kept = append(append(kept, name...), '/')
		}
	}
	return string(kept)
}
