package rules

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// Action is the effect of a rule on its target.
type Action int

// The actions. The zero value is none.
const (
	Ban Action = iota + 1
	Allow
	Raise // multiplies the amounts of limits
)

var actionNames = [...]string{Ban: "ban", Allow: "allow", Raise: "raise"}

const expectedAction = "ban, allow or raise"

// String returns the word for an action: ban, allow or raise.
func (a Action) String() string {
	if a < Ban || a > Raise {
		return fmt.Sprintf("Action(%d)", int(a))
	}
	return actionNames[a]
}

// Rule is an operator's rule about a client.
type Rule struct {
	Action  Action
	Percent int // of a Raise: what it makes of an amount, from minPercent to maxPercent; else 0
	Target  Target
	Until   time.Time // the end, to the second; the zero time: none
	Reason  string    // the text after the `#`
}

// Favors reports whether the rule is to the advantage of its clients. They must prove who they are.
func (s *Rule) Favors() bool { return s.Action == Allow || s.Percent > 100 }

// Stronger returns the rule that counts of two about different targets of one request, either of which may
// be nil: an allowance, or else the ban that ends last; of raises the highest.
func Stronger(a, b *Rule) *Rule {
	if b != nil && (a == nil || b.Action == Allow || b.Percent > a.Percent || b.Action == Ban && a.Action == Ban &&
		b.Outlasts(a)) {
		return b
	}
	return a
}

// Outlasts reports whether the rule ends after another one.
func (s *Rule) Outlasts(other *Rule) bool {
	return !other.Until.IsZero() && (s.Until.IsZero() || s.Until.After(other.Until))
}

// String returns the rule as a line of a file.
func (s Rule) String() string {
	line := s.about()
	if !s.Until.IsZero() {
		line += " until " + textfile.FormatTime(s.Until)
	}
	if s.Reason != "" {
		line += " # " + s.Reason
	}
	return line
}

// about returns the beginning of the line, without an end and a reason.
func (s Rule) about() string {
	line := s.Action.String() + " "
	if s.Action == Raise {
		line += FormatFactor(s.Percent) + " "
	}
	return line + s.Target.String()
}

// check returns an error if the rule can't be a line of a file.
func (s Rule) check() error {
	switch {
	case s.Action < Ban || s.Action > Raise:
		return errors.New("expected " + expectedAction)
	case s.Action == Raise && (s.Percent < minPercent || s.Percent > maxPercent):
		return errors.New("a raise needs a factor")
	case s.Action != Raise && (s.Percent != 0 || s.Target.Zone != ""):
		return errors.New("a factor and a zone are for raise")
	}
	if err := s.Target.check(); err != nil {
		return err
	}
	if err := textfile.CheckTime(s.Until); err != nil {
		return err
	}
	if err := checkReason(s.Reason); err != nil {
		return err
	}
	return s.checkLength()
}

// mostEscaped is the highest factor by which quoting lengthens a text.
const mostEscaped = 4

func (s Rule) checkLength() error {
	if mostEscaped*(len(s.Target.Text)+len(s.Target.Zone))+len(s.Reason) < maxLine-256 {
		return nil // the rest of the line always fits
	}
	if n := len(s.String()); n > maxLine {
		return fmt.Errorf("the line has %d bytes, expected at most %d", n, maxLine)
	}
	return nil
}

// checkReason returns an error about a reason that isn't valid after the `#` of a line, or that
// contains control characters for a terminal.
func checkReason(reason string) error {
	switch {
	case !utf8.ValidString(reason):
		return errors.New("the reason is not valid UTF-8")
	case strings.ContainsFunc(reason, isUnsafe):
		return fmt.Errorf("the reason has a character that can't be printed: got %s, expected a text on one line",
			quoted(reason))
	case strings.TrimSpace(reason) != reason:
		return fmt.Errorf("the reason has blanks around it: got %s", quoted(reason))
	}
	return nil
}

// isUnsafe reports whether a character would begin a line, control a terminal, or reorder the
// surrounding text.
func isUnsafe(r rune) bool {
	return unicode.IsControl(r) && r != '\t' || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// maxQuoted bounds the quoted part of a text in errors.
const maxQuoted = 60

// quoted returns a text in quotes for an error.
func quoted(text string) string { return fmt.Sprintf("%.*q", maxQuoted, text) }
