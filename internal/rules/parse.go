package rules

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// Bounds of a file.
const (
	maxLine  = 8192
	maxRules = 1_000_000
	maxFile  = 64 << 20
)

// Parse parses the text of a file. Errors contain the line number.
func Parse(text []byte) (*Set, error) {
	rules, err := parseAll(text)
	if err != nil {
		return nil, err
	}
	return NewSet(rules), nil
}

// parseAll returns the rules of a text, in its order.
func parseAll(text []byte) ([]Rule, error) {
	rules := make([]Rule, 0, bytes.Count(text, []byte{'\n'})+1)
	return rules, eachLine(text, func(_ string, s *Rule) {
		if s != nil {
			rules = append(rules, *s)
		}
	})
}

// eachLine calls f with each line of a text and its rule, or nil.
func eachLine(text []byte, f func(line string, s *Rule)) error {
	n, found := 0, 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		n++
		line = strings.TrimRight(line, "\r\n")
		s, err := parseLine(line)
		if err == nil && s != nil {
			if found++; found > maxRules {
				err = fmt.Errorf("there are more than %d rules", maxRules)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		f(line, s)
	}
	return nil
}

// ParseRule parses a line that must contain a rule, for example from a client of the admin
// endpoint.
func ParseRule(line string) (Rule, error) {
	s, err := parseLine(line)
	switch {
	case err != nil:
		return Rule{}, err
	case s == nil:
		return Rule{}, fmt.Errorf("got %s, expected %s, and %s", quoted(line), expectedAction, expectedTarget)
	}
	return *s, nil
}

// parseLine returns the rule in a line, or nil if there is none.
func parseLine(line string) (*Rule, error) {
	if len(line) > maxLine {
		return nil, fmt.Errorf("has %d bytes, expected at most %d", len(line), maxLine)
	}
	rest := line
	word, err := cutWord(&rest)
	if word == "" || err != nil {
		return nil, err
	}
	s := new(Rule)
	if err := s.parse(word, rest); err != nil {
		return nil, err
	}
	return s, s.check()
}

// parse parses a rule after its first word.
func (s *Rule) parse(action, rest string) (err error) {
	if s.Action = Action(slices.Index(actionNames[:], action)); s.Action < Ban {
		return fmt.Errorf("got %s, expected %s", quoted(action), expectedAction)
	}
	word, err := cutWord(&rest)
	if s.Action == Raise && err == nil {
		if s.Percent, err = ParseFactor(word); err == nil {
			word, err = cutWord(&rest)
		}
	}
	switch {
	case err != nil:
		return err
	case word == "":
		return fmt.Errorf("nothing follows %v, expected %s", s.Action, expectedTarget)
	}
	if s.Target, err = ParseTarget(word); err != nil {
		return err
	}
	for {
		switch word, err = cutWord(&rest); {
		case err != nil:
			return err
		case word == "":
			s.Reason = strings.TrimSpace(strings.TrimPrefix(rest, "#"))
			return nil
		case word == "zone" && s.Action == Raise && s.Target.Zone == "":
			if word, err = cutWord(&rest); err == nil {
				s.Target.Zone, err = unquote(word, "zone ")
			}
			if err != nil || s.Target.Zone == "" {
				return cmp.Or(err, errors.New("zone: expected the name of a zone behind it"))
			}
		case word == "until" && s.Until.IsZero():
			if word, err = cutWord(&rest); err != nil {
				return err
			}
			if s.Until, err = textfile.ParseTime(word); err != nil {
				return fmt.Errorf("until: %w", err)
			}
		case s.Action == Raise:
			return fmt.Errorf(
				"got %s, expected zone and a name, until and a date, # and a comment, or the end of the line",
				quoted(word))
		default:
			return fmt.Errorf("got %s, expected until and a date, # and a comment, or the end of the line",
				quoted(word))
		}
	}
}

// cutWord cuts the next word off the beginning of a text. It is empty at the end and before a
// comment. A quoted text is part of its word.
func cutWord(text *string) (string, error) {
	*text = strings.TrimLeft(*text, " \t")
	if strings.HasPrefix(*text, "#") {
		return "", nil
	}
	end := strings.IndexAny(*text, " \t")
	if end < 0 {
		end = len(*text)
	}
	if start := strings.IndexByte((*text)[:end], '"'); start >= 0 {
		quote, err := strconv.QuotedPrefix((*text)[start:])
		if err != nil {
			return "", errors.New("a quote has no end, expected another quote in the line")
		}
		end = start + len(quote)
		if end < len(*text) && !strings.ContainsRune(" \t", rune((*text)[end])) {
			return "", fmt.Errorf("got %s, expected a blank behind the quote", quoted((*text)[end:]))
		}
	}
	word := (*text)[:end]
	*text = (*text)[end:]
	return word, nil
}
