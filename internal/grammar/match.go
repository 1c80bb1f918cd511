package grammar

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// node is a part of a syntax.
type node struct {
	words    []string // which it stands for, unless it is a value
	value    string   // its name, such as <duration>
	rest     bool     // of several values
	optional []node   // in brackets
	target   int      // index of what it is assigned to, or -1
	about    string   // the word before a value, if it isn't the line's first
}

// parse parses the words of a syntax, in which brackets are words of their own, up to the end or the
// bracket that ends them.
func parse(words []string) (nodes []node, rest []string) {
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		n := node{target: -1}
		switch {
		case word == "]":
			return nodes, words
		case word == "[":
			n.optional, words = parse(words)
		case strings.Contains(word, "<"):
			n.value, n.rest = word, strings.HasSuffix(word, "...>") || strings.HasSuffix(word, ">...")
		default:
			word, n.rest = strings.CutSuffix(word, "...")
			n.words = strings.Split(word, "|")
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// lineWord is the target of the first word of a line that has none.
const lineWord = -2

// number numbers what has a target, from n on, and returns the number after the last.
func number(nodes []node, n int) int {
	for i := range nodes {
		if i > 0 && len(nodes[i-1].words) == 1 && nodes[i-1].target != lineWord {
			nodes[i].about = nodes[i-1].words[0] + ": "
		}
		if part := nodes[i].optional; part != nil {
			if !slices.ContainsFunc(part[1:], func(n node) bool { return n.value != "" || len(n.words) > 1 }) &&
				len(part[0].words) == 1 {
				part[0].target = n
				n++
			}
			n = number(part, n)
		} else if nodes[i].value != "" || len(nodes[i].words) > 1 {
			nodes[i].target = n
			n++
		}
	}
	return n
}

// is reports whether the node is a word, or one of some words.
func (n *node) is(word string) bool {
	return slices.Contains(n.words, word) || len(n.words) == 1 && n.words[0] == word+"s"
}

// match is the attempt to read words by a rule.
type match struct {
	block    *Block
	rule     *Rule
	all      []string // behind the first word
	words    []string // that are left of them
	taken    int
	literals int    // how many words of the syntax were found
	ends     []node // in brackets, whose words end a list of values
	set      []func() error
	read     func(*caddyfile.Dispenser) error // what follows, or nil
	err      error
	unlike   bool // another word stands where one of some is expected
}

func (m *match) run() {
	if only := &m.rule.nodes[0]; only.target >= 0 {
		m.assign(only.target, "", "true")
	}
	m.sequence(m.rule.nodes[1:])
	if m.err == nil && len(m.words) > 0 {
		m.unlike = m.taken == 0
		m.fail("got %s, where nothing more is expected", m.got())
	}
}

// fail notes the first error.
func (m *match) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// got returns the next word for an error, or what stands for it if the line has a secret.
func (m *match) got() string {
	for _, n := range m.rule.nodes {
		if n.value == "<secret>" || n.value == "<url>" || n.value == "<dsn>" {
			return "another word"
		}
	}
	return strconv.Quote(m.words[0])
}

// take removes n words.
func (m *match) take(n int) { m.words, m.taken = m.words[n:], m.taken+n }

func (m *match) sequence(nodes []node) {
	for i := 0; i < len(nodes) && m.err == nil; i++ {
		if nodes[i].optional == nil {
			after := i + 1
			for after < len(nodes) && nodes[after].optional != nil {
				after++
			}
			ends := m.ends
			m.ends = append(slices.Clip(ends), nodes[i+1:after]...)
			m.one(&nodes[i])
			m.ends = ends
			continue
		}
		first := i
		for i+1 < len(nodes) && nodes[i+1].optional != nil {
			i++
		}
		m.anyOrder(nodes[first : i+1])
	}
}

// anyOrder reads parts in brackets in any order, each once.
func (m *match) anyOrder(parts []node) {
	used := make([]bool, len(parts))
	ends := m.ends
	m.ends = append(slices.Clip(ends), parts...)
	defer func() { m.ends = ends }()
	for m.err == nil {
		i := slices.IndexFunc(parts, func(n node) bool { return m.begins(&n) })
		if i < 0 {
			return
		}
		if used[i] {
			m.fail("got %s, but %s is given already", m.got(), caddyconf.OrList(parts[i].optional[0].words))
			return
		}
		used[i] = true
		m.sequence(parts[i].optional)
		if parts[i].optional[0].value != "" {
			return // what follows a value without a word before it isn't another one
		}
	}
}

// begins reports whether the words that are left begin a part in brackets.
func (m *match) begins(n *node) bool {
	first := &n.optional[0]
	switch {
	case m.reader(first) != nil:
		return true
	case len(m.words) == 0:
		return false
	}
	return first.is(m.words[0]) || first.value != "" && !m.isEnd(m.words[0])
}

// isEnd reports whether a word begins a part in brackets that may follow.
func (m *match) isEnd(word string) bool {
	return slices.ContainsFunc(m.ends, func(n node) bool { return n.optional[0].is(word) })
}

// one reads what a node stands for.
func (m *match) one(n *node) {
	if read := m.reader(n); read != nil {
		m.words, m.read = nil, read
		return
	}
	_, whole := m.target(n).(func([]string) (int, error)) // which takes all of its words
	for first := true; m.err == nil &&
		(first || n.rest && !whole && len(m.words) > 0 && !m.isEnd(m.words[0])); first = false {
		switch {
		case len(m.words) == 0 && n.value != "":
			m.fail("%s%s is missing", n.about, n.value)
		case len(m.words) == 0:
			m.fail("%s is missing", caddyconf.OrList(n.words))
		case n.value == "" && !n.is(m.words[0]):
			m.unlike = true
			m.fail("%s",
				strings.TrimSuffix(fmt.Sprintf("expected %s, got %s: %s", caddyconf.OrList(n.words), m.got(),
					caddyconf.DidYouMean(m.words[0], n.words)), ": "))
		default:
			m.value(n)
		}
	}
}

// value reads one value.
func (m *match) value(n *node) {
	if read, ok := m.target(n).(func([]string) (int, error)); ok {
		end := 1
		for end < len(m.words) && !m.isEnd(m.words[end]) {
			end++
		}
		taken, err := read(m.words[:end])
		if err != nil {
			m.fail("%s%w", n.about, err)
			m.words = nil
			return
		}
		m.take(taken)
		return
	}
	m.assign(n.target, n.about, m.words[0])
	m.take(1)
	if n.value == "" {
		m.literals++
	}
}

// reader returns the function that reads the rest of a line, or nil.
func (m *match) reader(n *node) func(*caddyfile.Dispenser) error {
	read, _ := m.target(n).(func(*caddyfile.Dispenser) error)
	return read
}

func (m *match) target(n *node) any {
	if n.target < 0 {
		return nil
	}
	return m.rule.to[n.target]
}

// assign notes that a target gets a value.
func (m *match) assign(target int, about, word string) {
	if target < 0 {
		return
	}
	m.set = append(m.set, func() error {
		if err := set(m.rule.to[target], word); err != nil {
			return fmt.Errorf("%s%w", about, err)
		}
		return nil
	})
}

// set sets a target.
func set(to any, word string) error {
	switch to := to.(type) {
	case *bool:
		*to = true
	case *string:
		if *to = word; word == "" {
			return errors.New("must not be empty")
		}
	case *[]string:
		*to = append(*to, word)
	case *int:
		n, err := caddyconf.ParseCount(word)
		if err != nil || n < 1 || n > math.MaxInt32 {
			return fmt.Errorf("must be a whole number above zero, got %q", word)
		}
		*to = int(n)
	case *int64:
		n, err := caddyconf.ParseUnits(word)
		if err != nil || n < 1 {
			return fmt.Errorf("must be a whole number above zero, got %q", word)
		}
		*to = n
	case *caddy.Duration:
		duration, err := caddy.ParseDuration(word)
		if err != nil || duration <= 0 {
			return fmt.Errorf("must be a duration above zero, such as 100ms, 10m or 1d, got %q", word)
		}
		*to = caddy.Duration(duration)
	case func(string) error:
		return to(word)
	default:
		panic(fmt.Sprintf("grammar: a value can't be set in a %T", to))
	}
	return nil
}

// finish sets the targets, and reads what follows the words.
func (m *match) finish(d *caddyfile.Dispenser, rules []*Rule) error {
	for _, set := range m.set {
		if m.err = set(); m.err != nil {
			return m.error(d, rules)
		}
	}
	line := *d
	if m.rule.at != nil {
		*m.rule.at = caddyconf.Source(d)
	}
	for range m.taken {
		d.NextArg()
	}
	if m.read != nil {
		if err := m.read(d); err != nil {
			return err
		}
	}
	if m.rule.then != nil {
		if err := m.rule.then(); err != nil {
			return line.Errf("%w", prefixed(line.Val(), err))
		}
	}
	if m.rule.block == nil || m.read != nil {
		if m.read == nil && d.NextBlock(d.Nesting()) {
			return line.Errf("%s: it has no block; the syntax is %s", line.Val(), m.rule.text())
		}
		return nil
	}
	return prefixed(m.about(&line), m.rule.block.Read(d))
}

// prefixed returns an error that begins with what it is about.
func prefixed(about string, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), about+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", about, err)
}

// about is what errors in the block of a line begin with.
func (m *match) about(line *caddyfile.Dispenser) string {
	word, name := line.Val(), ""
	if len(m.rule.nodes) > 1 && m.rule.nodes[1].value == "<name>" && line.Args(&name) {
		return fmt.Sprintf("%s %q", word, name)
	}
	return word
}

// error returns the error about a line.
func (m *match) error(d *caddyfile.Dispenser, rules []*Rule) error {
	var syntaxes, first []string
	for _, r := range rules {
		syntaxes = append(syntaxes, r.text())
		first = append(first, r.first()...)
	}
	switch isFirst := len(rules) > 1 && m.taken == 0; {
	case isFirst && len(m.all) == 0:
		m.err = fmt.Errorf("%s is missing", caddyconf.OrList(first))
	case isFirst && m.unlike:
		m.err = errors.New(strings.TrimSuffix(fmt.Sprintf("expected %s, got %s: %s", caddyconf.OrList(first), m.got(),
			caddyconf.DidYouMean(m.all[0], first)), ": "))
	}
	if m.block.Mistake != nil {
		if line := m.block.Mistake(strings.Join(append([]string{d.Val()}, m.all...), " ")); line != "" {
			return d.Errf("%s: %w: write %s", d.Val(), m.err, line)
		}
	}
	return d.Errf("%s: %w; the syntax is %s", d.Val(), m.err, caddyconf.OrList(syntaxes))
}

// first returns what may stand behind the first word of a line.
func (r *Rule) first() []string {
	switch {
	case len(r.nodes) == 1 && r.block != nil:
		return []string{"a block"}
	case len(r.nodes) == 1 || r.nodes[1].optional != nil:
		return nil
	case r.nodes[1].value != "":
		return []string{r.nodes[1].value}
	}
	return r.nodes[1].words
}

// text returns the syntax of the line with what follows.
func (r *Rule) text() string {
	if r.block != nil {
		return r.syntax + " { … }"
	}
	return r.syntax
}
