package operator

import (
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Fact is something about the rate limiter that a person should know.
type Fact struct {
	Severity Severity
	Text     string     // a sentence without a full stop
	Since    *time.Time // nil unless it is known
	Reason   string     // the error behind it, or ""
	Ours     bool       // the error is about our servers, and names no client
	Do       string     // what to do, as a sentence without a full stop, or ""
}

// Severity says how urgent a fact is.
type Severity int

// The severities.
const (
	Notice   Severity = iota // as configured
	Happened                 // since the process began to decide
	Fault                    // at present, and until somebody does something
)

// mend is what to do about a file that is read again when it changes.
const mend = "Mend the file: it is read again within a second"

// Faults returns the facts that need somebody.
func (s Status) Faults() []Fact {
	return slices.DeleteFunc(s.Facts(), func(f Fact) bool { return f.Severity < Fault })
}

// Facts returns what isn't as usual, except for advice.
func (s Status) Facts() (facts []Fact) {
	for i := range s.Stores {
		facts = append(facts, s.Stores[i].facts()...)
	}
	facts = s.Rules.Trouble.addTo(facts,
		"The file of rules <file> can't be read: what was read before is in force", mend)
	for _, list := range s.Rules.Lists {
		switch {
		case list.Reason != "" && list.Bans == 0:
			facts = append(facts, Fact{Fault,
				"Block list " + list.Name + " can't be read, and bans nobody", nil, list.Reason, false, ""})
		case list.Reason != "":
			facts = append(facts, Fact{Fault,
				"Block list " + list.Name + " can't be read now, and its last good version is in force", nil, list.Reason, false, ""})
		}
	}
	if n := s.Undelivered; n > 0 {
		facts = append(facts, Fact{Severity: Happened, Text: wording.Counted(n, "notification") +
			" could not be delivered since the start: caddy rate-limit notify test says why"})
	}
	if len(s.Shadow) > 0 {
		facts = append(facts, Fact{Text: "In shadow, so that nothing is refused: " + strings.Join(s.Shadow, ", ")})
	}
	if len(s.Loaded) > 0 {
		facts = append(facts, Fact{Text: "Applied because of the load: " + strings.Join(s.Loaded, ", ")})
	}
	return facts
}

func (o *Store) facts() (facts []Fact) {
	if o.Degraded {
		facts = append(facts, Fact{Fault, "The store " + o.Kind + " can't be used: memory decides, with smaller limits",
			o.Since, o.Reason, true, "It is tried again by itself, without a restart"})
	}
	facts = o.History.addTo(facts, "The history can't be written, and waits in memory", "")
	facts = o.APIKeys.addTo(facts, "The file of API keys <file> can't be read: keys read before are in force", mend)
	facts = o.Names.addTo(facts, "The file of the key of names <file> is wrong", "")
	if n := o.Network; n != nil && n.LostWrites > 0 {
		facts = append(facts, Fact{Severity: Happened, Text: "The store has lost writes that it had acknowledged: " +
			wording.Counted(n.LostWrites, "time") + " since the start"})
	}
	if n := o.Network; n != nil && n.Server.Duration().Abs() >= time.Minute {
		compared := " ahead of"
		if n.Server < 0 {
			compared = " behind"
		}
		facts = append(facts, Fact{Severity: Fault, Text: "The clock of the store's server is " +
			wording.Wait(n.Server.Duration().Abs().Round(time.Minute)) + compared + " this machine's",
			Do: "Set the one that is wrong: counts go on evenly, but if no Caddy runs that knows the time, the next one believes the server"})
	}
	if r := o.Region; r != nil {
		if r.Since != nil {
			facts = append(facts, Fact{Fault, "Counts are not exchanged with other regions", r.Since, r.Reason, true,
				"This region goes on alone until they are"})
		}
		for _, fault := range r.Faults {
			facts = append(facts, Fact{Severity: Fault, Text: strings.TrimSuffix(fault, ".")})
		}
	}
	return facts
}

// addTo adds the problem of a file, unless it is nil.
func (t *FileTrouble) addTo(facts []Fact, text, do string) []Fact {
	if t == nil {
		return facts
	}
	return append(facts, Fact{Fault, strings.Replace(text, "<file>", t.File, 1), &t.Since, t.Reason, false, do})
}
