package endpoint

import (
	"bytes"
	"strings"
)

// parameter is a parameter of a query in one reading.
type parameter struct {
	pair  string // as sent
	name  string // decoded and folded, or a word; or anyText
	value string // in the same form
	sent  bool   // value is unchanged
}

// anyText is an undecodable name or value: programs may read it as any.
const anyText = "%"

// parameters are the parameters of a query.
type parameters struct {
	list   []parameter
	mixed  bool // programs split the query differently
	unread bool // it is too long
}

// Bounds on the parameters and the length of a query. A longer one may contain any parameter:
// reading it could take more than 100 µs. PHP and Node.js read as many parameters.
const (
	maxParameters = 1000
	maxQuery      = 4 << 10
)

// A query up to shortQuery and fewParameters, whose names are words, is read for each endpoint,
// which takes no memory. Any other is read once.
const (
	shortQuery    = 512
	fewParameters = 16
)

// appendFew appends the parameters of a query if they are few and simple to read.
func appendFew(few []parameter, query string) (list []parameter, ok bool) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		if len(few) == cap(few) || !isWord(name) || name == "" || strings.ContainsAny(value, "?;#") {
			return nil, false
		}
		few = append(few, parameter{pair: pair, name: name, value: value, sent: true})
	}
	return few, true
}

// readQuery reads the query and the parts of the path that backends may read as one.
func (read *reading) readQuery() {
	p := &read.parameters
	most := strings.Count(read.query, "&") + strings.Count(read.query, ";") + 1
	if p.unread = len(read.query) > maxQuery || most > maxParameters; p.unread {
		return
	}
	p.list = make([]parameter, 0, most)
	reader := parameterReader{parameters: p, decoder: &read.decoder, size: len(read.query)}
	p.mixed = strings.ContainsAny(read.query, ";?#")
	reader.split(read.query)
	for _, query := range read.queries {
		reader.split(query)
	}
}

// parameterReader reads parameters.
type parameterReader struct {
	*parameters
	decoder *decoder
	scratch []byte // the pair, decoded
	name    []byte
	text    strings.Builder // of decoded names and values
	size    int             // its final size, at most
	pairs   int
}

// split reads a query. Some programs also split it at a semicolon.
func (p *parameterReader) split(query string) {
	from := 0
	for i := 0; i <= len(query) && !p.unread; i++ {
		if i == len(query) || query[i] == '&' || query[i] == ';' {
			p.pair(query[from:i])
			from = i + 1
		}
	}
}

// pair reads a name and a value. Some programs ignore a `=` before the name, and some start again
// at a question mark.
func (p *parameterReader) pair(pair string) {
	text := strings.TrimLeft(pair, "=")
	p.mixed = p.mixed || len(text) < len(pair)
	if text == "" {
		return
	}
	p.scratch = p.scratch[:0]
	if key, value, _ := strings.Cut(text, "="); isWord(key) && strings.IndexByte(value, '?') < 0 {
		p.word(pair, key, value)
		return
	}
	whole := -1 // start of the value of the whole
	for rest, more := text, true; more && !p.unread; p.scratch = append(p.scratch, '?') {
		var part string
		if more = rest != "" && rest[0] == '?'; more { // many in a row
			rest = rest[1:]
			continue
		}
		part, rest, more = strings.Cut(rest, "?")
		from, key, value := p.part(part)
		if value >= 0 && whole < 0 {
			whole = value
		}
		if len(part) < len(text) && part != "" {
			p.decoded(pair, p.scratch[from:key], p.scratch[max(value, key):])
		}
	}
	all := p.scratch[:len(p.scratch)-1]
	if whole < 0 {
		whole = len(all) + 1
	}
	p.decoded(pair, all[:whole-1], all[min(whole, len(all)):])
	if at := BracketEquals(text); at >= 0 {
		p.mixed = true
		p.scratch = p.decoder.append(p.scratch[:0], text[:at], &lowerParameter)
		end := len(p.scratch)
		p.scratch = p.decoder.append(p.scratch, text[at+1:], &lowerParameter)
		p.decoded(pair, p.scratch[:end], p.scratch[end:])
	}
}

// BracketEquals returns the place of the `=` that ends the name of a pair for programs that look for `]=` first, such
// as Express. It returns -1 if that is the first `=` of the pair, or if there is none.
func BracketEquals(pair string) int {
	first := strings.IndexByte(pair, '=')
	for at := first; at >= 0; {
		if sent := pair[:at]; strings.HasSuffix(sent, "]") || len(sent) >= 3 && strings.EqualFold(sent[len(sent)-3:], "%5D") {
			if at == first {
				return -1
			}
			return at
		}
		next := strings.IndexByte(pair[at+1:], '=')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return -1
}

// word adds a pair whose name is a word.
func (p *parameterReader) word(pair, key, value string) {
	p.decoder.work += len(pair)
	if isWord(value) {
		p.add(parameter{pair: pair, name: key, value: value})
		return
	}
	p.scratch = p.decoder.append(p.scratch, value, &lowerParameter)
	p.valued(parameter{pair: pair, name: key}, "", p.scratch)
}

// part decodes a part of a pair. It returns the start and the end of its name, and the start of its
// value, or -1.
func (p *parameterReader) part(part string) (from, end, value int) {
	key, rest, found := strings.Cut(part, "=")
	from = len(p.scratch)
	p.scratch = p.decoder.append(p.scratch, key, &lowerParameter)
	end, value = len(p.scratch), -1
	if found {
		p.scratch = append(p.scratch, '=')
		value = len(p.scratch)
		p.scratch = p.decoder.append(p.scratch, rest, &lowerParameter)
	}
	return from, end, value
}

// decoded adds the readings of a decoded pair: PHP may read another name, and some programs stop at
// a NUL.
func (p *parameterReader) decoded(pair string, key, value []byte) {
	first, alias := parameter{pair: pair, name: anyText}, ""
	if bytes.IndexByte(key, '%') < 0 {
		p.name = append(p.name[:0], key...)
		base, mangled := readName(p.name)
		first.name = p.keep(base)
		if len(base) < len(mangled) {
			alias = p.keep(mangled)
		}
	}
	p.valued(first, alias, value)
}

// valued adds a parameter with a decoded value, and again with an alias if that isn't "".
func (p *parameterReader) valued(first parameter, alias string, value []byte) {
	short := first
	if first.value, short.value = anyText, anyText; bytes.IndexByte(value, '%') < 0 {
		whole, part := trimBlanks(value), trimBlanks(cutParameter(value))
		if first.value = p.keep(whole); len(part) == len(whole) {
			short.value = first.value
		} else {
			short.value = p.keep(part)
		}
	}
	p.add(first)
	if alias != "" {
		p.list = append(p.list, parameter{pair: first.pair, name: alias, value: first.value})
	}
	if short.value != first.value {
		p.list = append(p.list, short)
	}
}

// add adds a parameter, unless there are too many.
func (p *parameterReader) add(a parameter) {
	if p.pairs++; p.pairs > maxParameters {
		p.unread = true
		return
	}
	p.list = append(p.list, a)
}

// keep returns the text as a string.
func (p *parameterReader) keep(text []byte) string {
	from := p.text.Len()
	if from == 0 {
		p.text.Grow(p.size)
	}
	p.text.Write(text)
	return p.text.String()[from:]
}

// isWord reports whether all programs read a text unchanged, except for its case.
func isWord(text string) bool {
	for i := range len(text) {
		if !words[text[i]] {
			return false
		}
	}
	return true
}

var words = func() (table [256]bool) {
	for i := range table {
		c := lower[i]
		table[i] = 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-'
	}
	return table
}()

// lowerParameter is lower for names and values. A plus, encoded or not, is a blank: some programs
// decode twice, and a plus in a config may mean either.
var lowerParameter = func() [256]byte {
	table := lower
	table['+'] = ' '
	return table
}()

// readName returns the name in a decoded key, which is mode for mode[], mode[0] and [mode], and
// PHP's reading of the whole key. It changes the text.
func readName(text []byte) (base, mangled []byte) {
	text = cutParameter(text)
	mangled = trimBlanks(text)
	for len(text) > 0 && (text[0] == ' ' || text[0] == '[' || text[0] == ']') {
		text = text[1:]
	}
	for i, c := range text {
		if c == '[' || c == ']' {
			text = text[:i]
			break
		}
	}
	base = trimBlanks(text)
	for i, c := range mangled {
		if c == '.' || c == ' ' || c == '[' {
			mangled[i] = '_'
		}
	}
	return base, mangled
}

// cutParameter removes the text that programs don't see if they use C strings, or read `#` as the
// start of a fragment.
func cutParameter(text []byte) []byte {
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	if i := bytes.IndexByte(text, '#'); i >= 0 {
		text = text[:i]
	}
	return text
}

// Name is the name of a parameter of a query or of a cookie, in the programs' reading.
type Name string

// NewName returns the name for a written form.
func NewName(written string) Name {
	base, _ := readName(new(decoder).append(nil, written, &lowerParameter))
	return Name(base)
}

// MayBe reports whether some program may read a client's text as the name: decoded, in either case,
// as a list, or with PHP's conversion of `.`, `[` and blanks.
func (n Name) MayBe(sent string) bool {
	switch {
	case equalFolded(string(n), sent):
		return true
	case isWord(sent):
		return false
	}
	var scratch [64]byte
	base, mangled := readName(new(decoder).append(scratch[:0], sent, &lowerParameter))
	return string(base) == string(n) || string(mangled) == string(n)
}
