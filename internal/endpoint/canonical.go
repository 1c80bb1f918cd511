package endpoint

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// IsCanonical reports whether all programs read the path the same way: it has no empty, dotted or
// padded segment, no `\` or `;`, and no encoded character that could stand for itself or that has a
// special meaning when decoded.
func (r *Request) IsCanonical() bool {
	if r.isPlain() {
		return true
	}
	if r.Odd || r.isLong() || hasSession(r.Path) || !strings.HasPrefix(r.Path, "/") || !utf8.ValidString(r.Path) ||
		strings.Contains(r.Path, "::$") { // a stream of NTFS: /login.asp::$DATA
		return false
	}
	before := '/'
	for i, c := range r.Path {
		switch {
		case c < utf8.RuneSelf && kinds[c] == odd && c != ' ', isBlank(c) && before == '/':
			return false
		case (c == '/' || c == '.') && (isBlank(before) || before == '.'):
			return false
		case c == '/' && before == '/' && i > 0:
			return false
		case standsForASCII(c):
			return false
		}
		before = c
	}
	return !isBlank(before) && before != '.' && r.isEncodedAsNeeded()
}

// Scripts returns the segments of the path that servers may run as a program, with the rest of the path
// as its PATH_INFO: in /wp-login.php/x.css the first one.
func (r *Request) Scripts() (segments []string) {
	folder, rest, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	for rest != "" || strings.HasSuffix(r.Path, folder+"/") && folder != "" {
		if mayRun(folder) {
			segments = append(segments, folder)
		}
		if rest == "" {
			break
		}
		folder, rest, _ = strings.Cut(rest, "/")
	}
	return segments
}

// mayRun reports whether a server may run what a segment of a path names: by the extension of a script,
// also with more behind it (x.php.bak, x.php~, index.php8.3), or as a folder of CGI (cgi-bin, fcgi-bin).
func mayRun(segment string) bool {
	if indexFolded(segment, "cgi") >= 0 {
		return true
	}
	begin := 0
	for i := range len(segment) + 1 {
		if i == len(segment) || strings.IndexByte(".~:", segment[i]) >= 0 {
			if isScript(segment[max(begin-1, 0):i]) && begin > 0 {
				return true
			}
			begin = i + 1
		}
	}
	return false
}

// lookalikes are characters that some programs read as a dot or a slash, although Unicode doesn't
// decompose them.
const lookalikes = "\u3002\uff61\u2044\u2215\u29f8\u2216"

// standsForASCII reports whether some program may read a character as others, of ASCII: by Unicode's
// compatibility decomposition (NFKC), by its case, or since it isn't visible.
func standsForASCII(c rune) bool {
	if c < utf8.RuneSelf {
		return false
	}
	isASCII := func(c rune) bool { return c < utf8.RuneSelf }
	return foldRune(c) < utf8.RuneSelf || strings.ContainsRune(lookalikes, c) || unicode.Is(unicode.Cf, c) ||
		strings.ContainsFunc(norm.NFKC.String(string(c)), isASCII)
}

// isEncodedAsNeeded reports whether the only percent-encoded characters are those that can't stand
// for themselves, and those that apt encodes: + and ~.
func (r *Request) isEncodedAsNeeded() bool {
	for rest := r.RawPath; rest != ""; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			return true
		}
		if len(after) < 2 || !isHex(after[0]) || !isHex(after[1]) {
			return false
		}
		c := unhex(after[0])<<4 | unhex(after[1])
		if c < utf8.RuneSelf && !strings.ContainsRune(" \"<>^`{|}[]+~", rune(c)) {
			return false
		}
		rest = after[2:]
	}
	return true
}

// mostCanonical is the most parameters of a canonical query.
const mostCanonical = 64

// HasCanonicalQuery reports whether all programs find the same parameters in the query: no repeated
// ones, and no ambiguous separators or encodings.
func (r *Request) HasCanonicalQuery() bool {
	var few [fewParameters]parameter
	params := r.parameters(few[:0])
	if params.mixed || params.unread || len(params.list) > mostCanonical {
		return false
	}
	for i := range params.list {
		p := &params.list[i]
		twice := func(other parameter) bool { return strings.EqualFold(other.name, p.name) }
		if p.name == anyText || p.value == anyText || p.sent && strings.Contains(decoded(p.value), "%") ||
			slices.ContainsFunc(params.list[:i], twice) {
			return false
		}
	}
	return true
}
