package endpoint

import (
	"path"
	"strings"
)

// maxPath is the length of the longest path that is read. Honest clients send no
// longer ones.
const maxPath = 2 << 10

func (r *Request) isLong() bool { return len(r.Path) > maxPath || len(r.RawPath) > maxPath }

// Bytes that may stand in a plain path.
const (
	odd = iota
	plain
	dot
	slash
	colon
)

var kinds = func() (table [256]byte) {
	for c := byte('!'); c <= '~'; c++ {
		table[c] = plain
	}
	for _, c := range []byte(`%\;?#`) {
		table[c] = odd
	}
	table['.'], table['/'], table[':'] = dot, slash, colon
	return table
}()

// isPlain reports whether the path can be compared as it is: all programs read it
// alike, but for its case. It is fast.
func (r *Request) isPlain() bool {
	if r.Odd || r.Path == "" || r.Path[0] != '/' || r.isLong() || r.RawPath != "" && r.RawPath != r.Path {
		return false
	}
	before := byte(plain)
	for i := range len(r.Path) {
		kind := kinds[r.Path[i]]
		if kind != plain {
			if kind == odd || kind == before || kind == slash && before == dot {
				return false // `//`, `..`, `::`, or a dot at the end of a segment
			}
		}
		before = kind
	}
	return before != dot
}

// readings are what programs may read a path as.
type readings struct {
	paths    []string
	query    string // behind an encoded question mark
	disputed bool   // programs disagree on what `..` removes
}

func readingsOf(r *Request) readings {
	raw := r.RawPath
	if raw == "" {
		raw = r.Path
	}
	var read readings
	read.add(cleanedOnce(r.Path))
	decoded := fold(r.Path)
	read.addNames(decoded)
	if plain := withoutParameters(decoded, isSlash); plain != decoded {
		read.addNames(plain)
	}
	if i := strings.IndexByte(decoded, '?'); i >= 0 {
		read.query = decoded[i+1:]
	}
	if short := cut(decoded); short != decoded {
		read.addNames(withoutParameters(short, isSlash))
	}
	if strings.ContainsRune(raw, ';') { // some remove parameters before they decode
		early := fold(withoutParameters(raw, func(c rune) bool { return c == '/' }))
		read.addNames(withoutParameters(cut(early), isSlash))
	}
	if isAuthority(raw) {
		read.addBehindHost()
	}
	read.disputed = read.disputed && !isOnlyDotted(raw)
	return read
}

// cleanedOnce reads a path as Caddy's path matcher does.
func cleanedOnce(s string) string {
	cleaned := path.Clean("/" + s)
	if cleaned != "/" && strings.HasSuffix(s, "/") {
		cleaned += "/"
	}
	return string(appendFolded(nil, []byte(cleaned)))
}

func (read *readings) add(s string) {
	for _, other := range read.paths {
		if other == s {
			return
		}
	}
	read.paths = append(read.paths, s)
}

// addNames adds the names between slashes or backslashes, trimmed, with dots
// resolved and left alone.
func (read *readings) addNames(s string) {
	names := make([]string, 0, strings.Count(s, "/")+1)
	resolved := make([]string, 0, cap(names))
	for name := range strings.FieldsFuncSeq(s, isSlash) {
		name = trimBlanks(name)
		trimmed := strings.TrimRightFunc(name, func(c rune) bool { return c == '.' || isBlank(c) })
		switch {
		case trimmed != "":
			names, resolved = append(names, trimmed), append(resolved, trimmed)
		case strings.Count(name, ".") > 1:
			read.disputed = true
			names = append(names, "..")
			resolved = resolved[:max(len(resolved)-1, 0)]
		}
	}
	read.add("/" + strings.Join(resolved, "/"))
	if len(resolved) != len(names) {
		read.add("/" + strings.Join(names, "/"))
	}
}

// addBehindHost adds what the readings are without their first name.
func (read *readings) addBehindHost() {
	for _, path := range read.paths[:len(read.paths):len(read.paths)] {
		behind := "/"
		if end := strings.IndexByte(path[1:], '/'); end >= 0 {
			behind = path[1+end:]
		}
		read.add(behind)
	}
}

func isSlash(c rune) bool { return c == '/' || c == '\\' }

// isAuthority reports whether a request target begins as `//host`, which parsers
// of URLs take for the name of one.
func isAuthority(raw string) bool {
	return len(raw) > 1 && isSlash(rune(raw[0])) && isSlash(rune(raw[1]))
}

// isOnlyDotted reports whether all that a raw path has beside plain names is dots,
// on which programs agree.
func isOnlyDotted(raw string) bool {
	for i := range len(raw) {
		if kinds[raw[i]] == odd || kinds[raw[i]] == slash && i > 0 && raw[i-1] == '/' {
			return false
		}
	}
	return !strings.Contains(raw, "...")
}

// cut removes what programs that keep text in C strings, or parse a URL a second
// time, don't see.
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
func withoutParameters(s string, endsSegment func(rune) bool) string {
	if !strings.Contains(s, ";") {
		return s
	}
	var b strings.Builder
	skip := false
	for i := range len(s) {
		skip = !endsSegment(rune(s[i])) && (skip || s[i] == ';')
		if !skip {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// fold decodes and folds a text until that changes nothing any more.
func fold(s string) string {
	for {
		folded := appendFolded(make([]byte, 0, len(s)), decodeAll(s))
		if string(folded) == s {
			return s
		}
		s = string(folded)
	}
}
