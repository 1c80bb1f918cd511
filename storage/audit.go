package storage

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Log names a list of acts. A store keeps the lists apart, so that neither displaces acts of the other.
type Log uint8

const (
	Audit   Log = iota // what operators did
	Charges            // units that applications charged or gave back
	Logs               // the number of lists
)

// Act is an entry of a list: an action of an operator or an application.
type Act struct {
	At     int64  // nanoseconds since the Unix epoch
	By     string // the operator
	Action string
	Target string // the target's name at rest; "" if there is none
	Kind   string // the kind of target, for example "network"
	Reason string
}

// Auditor keeps lists of acts.
type Auditor interface {
	// Audit adds an act to a list. When it returns nil, the act is as durable as a committed claim. It moves
	// the act's time forward, if necessary, to one that no other act of the list has. Texts that are too long
	// are cut.
	Audit(ctx context.Context, log Log, act *Act) error

	// Acts returns the n newest acts of a list before a time, the newest first. n is at most MaxActs.
	Acts(ctx context.Context, log Log, before int64, n int) ([]Act, error)
}

// Bounds of a list of acts.
const (
	KeepActs    = 90 * Day
	MaxActsKept = 100_000 // about; the oldest go first; a store may keep fewer charges
	MaxActs     = 1000    // of one call of Acts
	MaxActText  = 256     // bytes of each text except the reason
	MaxReason   = 2048    // bytes of the reason, which may be sealed
)

// Cut makes the texts of an act valid UTF-8 of at most MaxActText and MaxReason bytes, without
// control characters.
func (a *Act) Cut() {
	for _, text := range []*string{&a.By, &a.Action, &a.Target, &a.Kind} {
		*text = cut(*text, MaxActText)
	}
	a.Reason = cut(a.Reason, MaxReason)
}

func cut(text string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), 2*most)], "�"))
	for len(clean) > most {
		_, size := utf8.DecodeLastRuneInString(clean)
		clean = clean[:len(clean)-size]
	}
	return clean
}
