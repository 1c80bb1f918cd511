package storage

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Auditor is a store that keeps audit entries.
type Auditor interface {
	// Audit notes an act. When it returns nil, the act is in the store: it survives what a
	// commit survives. It sets the act's time to one that no other act has, a little later
	// if need be. Texts that are too long are cut.
	Audit(ctx context.Context, act *Act) error

	// Acts returns the n newest acts before a time, the newest first. n is at most MaxActs.
	Acts(ctx context.Context, before int64, n int) ([]Act, error)
}

// Act is something that somebody did.
type Act struct {
	At     int64  // nanoseconds since the Unix epoch
	By     string // the actor
	Action string // its action
	Target string // the target's name at rest; "" if there is none
	Kind   string // the kind of target, for example "network"
	Reason string // why
}

// Bounds of audit entries.
const (
	KeepActs    = 90 * Day
	MaxActsKept = 100_000 // the oldest go first
	MaxActs     = 1000    // at once
	MaxActText  = 256     // bytes of each text but the reason
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
