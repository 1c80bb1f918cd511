package endpoint

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"strings"
)

// pattern is a path of an endpoint. If its only `*` is after the last slash, it stands for a folder
// and everything below it; otherwise a `*` separates pieces.
type pattern struct {
	written  string // decoded, for exact comparison
	segments []segment
	below    bool     // also matches everything below the segments
	pieces   []string // instead of segments
	words    []string // words in each path that it covers, in this order
}

// segment is a folded part of a path between slashes.
type segment struct {
	text string
	stem string // text without its extension, if it has one
}

func newPattern(written string) (pattern, error) {
	if err := checkPath(written); err != nil {
		return pattern{}, err
	}
	p := pattern{written: unescaped(written)}
	folded := strings.TrimRight(decoded(p.written), "/")
	if folder, ok := strings.CutSuffix(folded, "/*"); ok && !strings.Contains(folder, "*") {
		folded, p.below = folder, true
	}
	if strings.Contains(folded, "*") {
		p.pieces = strings.Split(folded, "*")
		p.words = strings.FieldsFunc(folded, func(c rune) bool { return c == '/' || c == '*' })
		return p, nil
	}
	for text := range strings.SplitSeq(folded, "/") {
		if text != "" {
			p.segments = append(p.segments, segment{text, stem(text)})
			p.words = append(p.words, cmp.Or(stem(text), text))
		}
	}
	return p, nil
}

// unescaped reverts the percent-encoding of a path.
func unescaped(written string) string {
	if path, err := url.PathUnescape(written); err == nil {
		return path
	}
	return written
}

// stem returns a name without its extension, or "" if it has none. A number is not an extension,
// but a part of a version.
func stem(name string) string {
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 || dot+1 == len(name) || name[dot+1] < 'a' || name[dot+1] > 'z' {
		return ""
	}
	return name[:dot]
}

// checkPath returns an error if a path of an endpoint isn't canonical.
func checkPath(written string) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("the path %q "+format, append([]any{written}, args...)...)
	}
	if !strings.HasPrefix(written, "/") {
		return wrong("doesn't begin with a slash: expected one such as /login, /api/* or /*.php")
	}
	decoded := unescaped(written)
	if decoded == "/" {
		return nil
	}
	if i := strings.IndexAny(decoded, "?#{}[];\\%\uFFFD"); i >= 0 {
		hint := ": the matcher path takes Caddy's patterns and placeholders"
		if decoded[i] == '?' {
			hint = ": conditions on the query follow the path, as in /search mode=heavy"
		}
		return wrong("has %q in it, expected a path with no special characters but *%s", decoded[i:i+1], hint)
	}
	for _, c := range decoded {
		if isBlank(c) {
			return wrong("has a blank or control character in it, expected a path without")
		}
	}
	plain := strings.TrimSuffix(decoded, "/")
	for name := range strings.SplitSeq(plain[1:], "/") {
		if name == "" || strings.HasSuffix(name, ".") {
			return wrong("isn't in its shortest form: expected %q", cleaned(decoded))
		}
	}
	return nil
}

func cleaned(decoded string) string {
	var names []string
	for name := range strings.SplitSeq(path.Clean(decoded), "/") {
		if name = strings.TrimRight(name, "."); name != "" {
			names = append(names, name)
		}
	}
	return "/" + strings.Join(names, "/")
}

// is reports whether a canonical path matches the pattern exactly. A `*` within the pattern stands
// for text without slashes.
func (p *pattern) is(s string) bool {
	if p.pieces == nil && p.below {
		folder := strings.TrimSuffix(p.written, "*")
		return strings.HasPrefix(s, folder) || s == strings.TrimSuffix(folder, "/")
	}
	matches, err := path.Match(p.written, s)
	return matches && err == nil
}

// names reports whether a reading of a path matches the pattern.
func (p *pattern) names(s string) bool {
	if p.pieces != nil {
		return p.globs(&spelling{text: s, file: -1}, 0, false)
	}
	rest, _, ok := p.follow(s, false)
	return ok && (p.below || isEmpty(rest))
}

// mentioned reports whether a reading of a disputed path may become the pattern's by omitting some
// of its names.
func (p *pattern) mentioned(s string) bool {
	if len(p.words) == 0 && p.pieces == nil && !p.below { // the front page
		last := s[strings.LastIndexByte(s, '/'):]
		return last == "/.." || isEmpty(last) || isIndex(last)
	}
	for _, word := range p.words {
		i := strings.Index(s, word)
		if i < 0 {
			return false
		}
		s = s[i+len(word):]
	}
	return true
}

// covers reports whether some program may read a path as the pattern: after a script, with an
// extension, or with more text after it.
func (p *pattern) covers(path *spelling) bool {
	if path.crowded {
		return true
	}
	for i := range path.scripts + 1 {
		at := 0
		if i > 0 {
			at = int(path.ends[i-1])
		}
		switch {
		case p.pieces == nil:
			if p.coversFrom(path, at) {
				return true
			}
		case hasFoldedPrefix(path.text[at:], p.pieces[0]): // a later one can't match if this one doesn't
			return p.globs(path, at, true)
		}
	}
	return false
}

func (p *pattern) coversFrom(path *spelling, at int) bool {
	rest, extended, ok := p.follow(path.text[at:], true)
	switch {
	case !ok:
		return false
	case p.below, isEmpty(rest):
		return true
	case len(p.segments) == 0: // the front page has nothing below it
		return isIndex(rest) && strings.IndexByte(rest[1:], '/') < 0
	}
	return extended || isIndex(rest) || path.file >= len(path.text)-len(rest)
}

// follow removes the segments from the beginning of a path. It returns the rest, and whether the
// last segment has, or may have, the extension of a script, to which the rest is passed.
func (p *pattern) follow(s string, guess bool) (rest string, extended, ok bool) {
	rest = s
	for i := range p.segments {
		if isEmpty(rest) {
			return "", false, false
		}
		name := rest[1:]
		if end := strings.IndexByte(name, '/'); end >= 0 {
			name = name[:end]
		}
		rest = rest[1+len(name):]
		if equalFolded(p.segments[i].text, name) {
			extended = p.segments[i].stem != ""
			continue
		}
		if !guess {
			return "", false, false
		}
		if extended = p.segments[i].extends(name, isEmpty(rest)); !extended {
			return "", false, false
		}
	}
	return rest, extended, true
}

// extends reports whether a name is the segment with an extension, or without the segment's own.
// The last name of a path may have any extension.
func (s *segment) extends(name string, last bool) bool {
	if s.stem != "" && equalFolded(s.stem, name) {
		return true
	}
	return len(name) > len(s.text) && name[len(s.text)] == '.' && hasFoldedPrefix(name, s.text) &&
		(last || isFile(name))
}

// globs reports whether a path from a position consists of the pieces with any text between them.
func (p *pattern) globs(path *spelling, from int, guess bool) bool {
	s := path.text
	if !hasFoldedPrefix(s[from:], p.pieces[0]) {
		return false
	}
	last := len(p.pieces) - 1
	at := from + len(p.pieces[0])
	for _, piece := range p.pieces[1:last] {
		i := indexFolded(s[at:], piece)
		if i < 0 {
			return false
		}
		at += i + len(piece)
	}
	return p.pieces[last] == "" || endsIn(path, at, p.pieces[last], guess)
}

// endsIn reports whether a path ends, after a position, with the end of a pattern.
func endsIn(path *spelling, at int, tail string, guess bool) bool {
	s := path.text
	name := strings.LastIndexByte(strings.TrimSuffix(s, "/"), '/')
	for {
		i := indexFolded(s[at:], tail)
		if i < 0 {
			return false
		}
		end := at + i + len(tail)
		if rest := s[end:]; isEmpty(rest) || guess && endsName(s[:end], rest, path.file > end, end > name) {
			return true
		}
		at += i + 1
	}
}

// endsName reports whether a match of the end of a pattern may be followed by rest: an extension,
// text for a script, or a file.
func endsName(matched, rest string, beforeFile, last bool) bool {
	switch rest[0] {
	case '.':
		name := rest[:min(len(rest), longestName)]
		slash := strings.IndexByte(name, '/')
		return last || slash < 0 || isFile(name[:slash])
	case '/':
		return beforeFile || isIndex(rest) || isFile(matched[strings.LastIndexByte(matched, '/')+1:])
	}
	return false
}

// longestName bounds the search for the end of a name.
const longestName = 256

// isEmpty reports whether the rest of a path is empty.
func isEmpty(rest string) bool { return rest == "" || rest == "/" }

// isIndex reports whether the first name of a path is an index page, which stands
// for its folder.
func isIndex(rest string) bool {
	name := rest[1:]
	if end := strings.IndexByte(name, '/'); end >= 0 {
		name = name[:end]
	}
	for _, index := range []string{"index", "default"} {
		if hasFoldedPrefix(name, index) {
			return index == "index" && len(name) == len(index) || len(name) > len(index) && name[len(index)] == '.' &&
				isFile(name)
		}
	}
	return false
}
