// Package grammar reads the blocks of a Caddyfile by the syntax of their lines, as documentation
// writes it:
//
//	ban after <n> violations in <duration> for <duration> [up to <duration>]
//
// So a line stands once: what reads it, what its errors say is expected, and what the reference
// shows are the same text.
//
// In a syntax, a word stands for itself, a|b for one of some words, <name> for a value, and
// <name...> for values up to a word that may follow. What is in brackets may be left out, and such
// parts beside each other may come in any order, each once.
package grammar

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// Rule is a line that may stand in a block. Several rules may begin with the same word.
type Rule struct {
	syntax  string
	nodes   []node
	to      []any
	then    func() error
	block   *Block
	at      *string
	repeats bool
}

// brackets makes brackets words of their own.
var brackets = strings.NewReplacer("[", " [ ", "]", " ] ")

// Line returns the rule for lines with a syntax.
//
// The values, the alternatives, and the words in brackets that stand there without a value are assigned to
// what to points to, in their order. It takes:
//
//   - a *bool, for a word in brackets or a line that is only a word, which becomes true
//   - a *string, which mustn't become empty
//   - an *int or *int64, for a whole number above zero
//   - a *[caddy.Duration], for one above zero
//   - a *[]string, to which values are appended
//   - a func(string) error, for a value of another kind
//   - a func(words []string) (taken int, err error), for values that may be several words
//   - a func(*[caddyfile.Dispenser]) error, last, which reads the rest of the line and what else
//     belongs to it
func Line(syntax string, to ...any) Rule {
	r := Rule{syntax: syntax, to: to}
	r.nodes, _ = parse(strings.Fields(brackets.Replace(syntax)))
	r.nodes[0].target = lineWord
	targets := number(r.nodes, 0)
	if len(r.nodes) == 1 && len(to) == 1 {
		r.nodes[0].target, targets = 0, 1
	}
	if targets != len(to) {
		panic(fmt.Sprintf("grammar: %q has %d values, got %d targets", syntax, targets, len(to)))
	}
	return r
}

// Repeats allows that a line is written several times.
func (r Rule) Repeats() Rule {
	r.repeats = true
	return r
}

// Then calls f when the line has been read, before its block.
func (r Rule) Then(f func() error) Rule {
	r.then = f
	return r
}

// At notes the place of the line, such as Caddyfile:12.
func (r Rule) At(source *string) Rule {
	r.at = source
	return r
}

// With reads a block behind the line, which may be missing.
func (r Rule) With(b Block) Rule {
	r.block = &b
	return r
}

// Read reads the current line, which must be one of the rule's.
func (r Rule) Read(d *caddyfile.Dispenser) error {
	return Block{Rules: func() Rules { return Rules{r} }}.readLine(d, make(map[string]bool))
}

// ReadAll reads the lines of a matcher of Caddy, which come one behind the other.
func (r Rule) ReadAll(d *caddyfile.Dispenser) error {
	for first := true; d.Next(); first = false {
		if !first && !r.repeats {
			return d.Errf("%s is given twice in one set of matchers: merge both, or write another set", d.Val())
		}
		if err := r.Read(d); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rule) word() string { return r.nodes[0].words[0] }

// Rules are those of a block.
type Rules []Rule

// words returns the first words of the rules.
func (rules Rules) words() (words []string) {
	for i := range rules {
		if word := rules[i].word(); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

// Block is a block of lines.
type Block struct {
	// Rules returns the rules. It is called for each line, so that what is repeated may be read
	// into new values.
	Rules func() Rules

	// Check checks what was read so far, after each line. An error that is still there at the
	// end names the line that brought it. nil checks nothing.
	Check func() error

	// Counts reports, at the end, whether an error of Check counts. nil reports that it does.
	Counts func() bool

	// Mistake returns the line to write for a frequent mistake, or "". nil knows none.
	Mistake func(line string) string

	// Misplaced returns where a word belongs that no rule begins with, or "". nil knows nothing.
	Misplaced func(word string) string

	// Unknown is what errors call a word that no rule begins with: `unrecognized option "x"` if
	// it is nil.
	Unknown func(word string) string
}

// Words returns the words that may begin a line.
func (b Block) Words() []string { return b.Rules().words() }

// Read reads a block that may follow.
func (b Block) Read(d *caddyfile.Dispenser) error {
	check := b.Check
	if check == nil {
		check = func() error { return nil }
	}
	seen := make(map[string]bool)
	wrong, source := check(), caddyconf.Source(d)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		line := caddyconf.Source(d)
		if err := b.readLine(d, seen); err != nil {
			return err
		}
		err := check()
		if err != nil && (wrong == nil || err.Error() != wrong.Error()) {
			source = line
		}
		wrong = err
	}
	if b.Counts != nil && !b.Counts() {
		return nil
	}
	return caddyconf.AtSource(wrong, source)
}

// readLine reads the current line. seen has the words of earlier ones that may not be repeated.
func (b Block) readLine(d *caddyfile.Dispenser, seen map[string]bool) error {
	word := d.Val()
	ahead := *d
	words := ahead.RemainingArgs()
	var rules []*Rule
	all := b.Rules()
	for i := range all {
		if all[i].word() == word {
			rules = append(rules, &all[i])
		}
	}
	if len(rules) == 0 {
		return b.unknown(d, word, words, all.words())
	}
	var best *match
	for _, r := range rules {
		m := &match{block: &b, rule: r, all: words, words: words}
		if m.run(); best == nil || m.err == nil || m.literals > best.literals {
			best = m
		}
		if m.err == nil {
			break
		}
	}
	if best.err == nil && seen[word] && !best.rule.repeats {
		return d.Errf("%s is given twice: write it once", word)
	}
	if best.err != nil {
		return best.error(d, rules)
	}
	seen[word] = !best.rule.repeats
	return best.finish(d, rules)
}

// unknown returns the error about a word that no rule begins with.
func (b Block) unknown(d *caddyfile.Dispenser, word string, rest, known []string) error {
	what := fmt.Sprintf("unrecognized option %q", word)
	if b.Unknown != nil {
		what = b.Unknown(word)
	}
	hint := cmp.Or(caddyconf.DidYouMean(word, known), "expected "+caddyconf.OrList(known))
	if b.Misplaced != nil {
		hint = cmp.Or(b.Misplaced(word), hint)
	}
	if b.Mistake != nil {
		if line := b.Mistake(strings.Join(append([]string{word}, rest...), " ")); line != "" {
			hint = "write " + line
		}
	}
	return d.Errf("%s: %s", what, hint)
}

// Text returns the syntax of the block's lines, and of blocks in it, as documentation shows it.
func (b Block) Text(indent string) string {
	var text strings.Builder
	for _, r := range b.Rules() {
		text.WriteString(indent + r.syntax)
		if r.block != nil {
			text.WriteString(" {\n" + r.block.Text(indent+"\t") + indent + "}")
		}
		text.WriteString("\n")
	}
	return text.String()
}
