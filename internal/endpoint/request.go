package endpoint

import "strings"

// Request is a received request, with fields like [net/http.Request].
type Request struct {
	Method  string
	Header  map[string][]string
	Path    string // decoded once
	RawPath string // as received, if encoding Path gives another text; or ""
	Query   string // as received
	// Odd reports that the request target is not a path and a query: it has
	// a scheme, or is not hierarchical.
	Odd bool
	// Tunnel reports that the request is an extended CONNECT (RFC 8441 and 9220), which opens a
	// WebSocket over HTTP/2 and HTTP/3. Proxies forward it as a GET.
	Tunnel bool
	// Memory keeps the readings of the request for the next endpoint. Without one, each endpoint
	// reads the request again.
	Memory Memory

	read *reading // nil until the first reading
}

// Memory gives the readings of a request, the same each time.
type Memory interface{ Readings() *Readings }

// Readings are the readings of a request as it was sent, and as it was rewritten. The zero value is
// ready for use.
type Readings struct {
	recent [2]*reading
	turn   int
}

// of returns the reading of a request: an existing one if its target is the same.
func (re *Readings) of(r *Request) *reading {
	for _, read := range re.recent {
		if read != nil && read.isOf(r) {
			return read
		}
	}
	re.turn = (re.turn + 1) % len(re.recent)
	re.recent[re.turn] = newReading(r)
	return re.recent[re.turn]
}

// reading holds the possible readings of a request. A plain path or query is not read but compared
// as it is.
type reading struct {
	path, raw, query string // the text that is read
	odd              bool

	pathReading
	hasPaths   bool
	parameters parameters
	hasQuery   bool
	decoder    decoder
}

func newReading(r *Request) *reading {
	return &reading{path: r.Path, raw: r.RawPath, query: r.Query, odd: r.Odd}
}

func (read *reading) isOf(r *Request) bool {
	return read.path == r.Path && read.raw == r.RawPath && read.query == r.Query && read.odd == r.Odd
}

// reading returns the readings of the request, with its paths unless they are plain.
func (r *Request) reading() *reading {
	if r.read == nil {
		if r.Memory != nil {
			r.read = r.Memory.Readings().of(r)
		} else {
			r.read = newReading(r)
		}
	}
	if !r.read.hasPaths {
		r.read.hasPaths = true
		if !r.isPlain() && !r.isUnread() {
			r.read.readPath()
		}
	}
	return r.read
}

// parameters returns the parameters of the query, and of the parts of the path that backends may
// read as one. It uses few if there are few, so that they take no memory.
func (r *Request) parameters(few []parameter) parameters {
	if r.read == nil && len(r.Query) <= shortQuery && r.isPlain() {
		if list, ok := appendFew(few, r.Query); ok {
			return parameters{list: list}
		}
	}
	read := r.reading()
	if !read.hasQuery {
		read.hasQuery = true
		read.readQuery()
	}
	return read.parameters
}

// maxPath is the length of the longest path that is read. Honest clients send no longer ones.
const maxPath = 2 << 10

func (r *Request) isLong() bool { return len(r.Path) > maxPath || len(r.RawPath) > maxPath }

// isUnread reports whether the path isn't read, because it is too long or isn't a path. It may be
// that of any endpoint.
func (r *Request) isUnread() bool { return r.isLong() || r.Odd && !strings.HasPrefix(r.Path, "/") }

// Bytes that may stand in a plain path.
const (
	odd = iota
	plain
	dot
	slash
	colon
	bracket
)

var kinds = func() (table [256]byte) {
	for c := byte('!'); c <= '~'; c++ {
		table[c] = plain
	}
	for _, c := range []byte(`%\;?#`) {
		table[c] = odd
	}
	table['.'], table['/'], table[':'], table['('] = dot, slash, colon, bracket
	return table
}()

// isPlain reports whether the path can be compared as it is: all programs read it alike, except for
// its case. It is fast.
func (r *Request) isPlain() bool {
	if r.Odd || r.Path == "" || r.Path[0] != '/' || r.isLong() || r.RawPath != "" && r.RawPath != r.Path {
		return false
	}
	before := byte(plain)
	for i := range len(r.Path) {
		kind := kinds[r.Path[i]]
		if kind != plain {
			if kind == odd || kind == before || before == slash && kind == bracket || kind == slash && before == dot {
				return false // `//`, `..`, `::`, `/(`, or a dot at the end of a segment
			}
		}
		before = kind
	}
	return before != dot
}
