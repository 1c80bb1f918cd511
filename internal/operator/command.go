package operator

import (
	"net/netip"
	"strings"
	"time"
	"unicode"
)

// Action is what operators do about a client. Its text is the name of its endpoint and command, and its word
// in the audit.
type Action string

// The actions. Those that last do so until the command's end.
const (
	Reset    Action = "reset"    // forgets a client's counts, in one zone or in all
	Ban      Action = "ban"      // refuses every request of a client
	Unban    Action = "unban"    // ends the bans of a client, by an operator or automatic, and forgets its violations
	Allow    Action = "allow"    // passes every request of a client, regardless of bans and limits
	Disallow Action = "disallow" // undoes Allow
	Raise    Action = "raise"    // multiplies the amounts of a client's limits, in one zone or in all
	Unraise  Action = "unraise"  // undoes Raise
)

// Command has the details of an action.
type Command struct {
	// Client names the client: see [ParseTarget]. Required, unless All is set.
	Client string `json:"client"`
	// Zone restricts a reset or a raise to one zone; "" means all. Other commands ignore it.
	Zone string `json:"zone,omitempty"`
	// Factor is what a raise multiplies amounts by, such as 5x or 0.2x.
	Factor string `json:"factor,omitempty"`
	// For is the duration of a ban, an allowance or a raise; 0 means until it is lifted. An allowance needs
	// an end.
	For Seconds `json:"for_seconds,omitempty"`
	// Force permits rules about networks wider than /8, or /19 of IPv6, bans of the actor's own address and of trusted
	// proxies, and an unban of all.
	Force bool `json:"force,omitempty"`
	// All makes an unban end the bans of all clients, at most MaxItems.
	All bool `json:"all,omitempty"`
	// KeepViolations restricts an unban to the operator's ban: an automatic ban stays, and so do
	// the violations. So it undoes a ban and nothing else.
	KeepViolations bool `json:"keep_violations,omitempty"`
	// Reason is for the audit and the file; at most MaxReason characters.
	Reason string `json:"reason,omitempty"`
	// By is the actor, for the audit, for example the user of the dashboard. The admin endpoint
	// always sets it to "admin".
	By string `json:"-"`
	// From is the actor's address, if a ban of it may be a mistake.
	From netip.Addr `json:"-"`
}

// Where returns the zone that the command is restricted to, with a blank before it, for a sentence; or "".
func (o Command) Where() string {
	if o.Zone == "" {
		return ""
	}
	return " in zone " + o.Zone
}

// Import is a list of bans and allowances to add.
type Import struct {
	// Rules are lines as in the rules file, at most MaxItems, such as "ban 203.0.113.0/24
	// until 2026-12-01 # scraper". Required.
	Rules []string `json:"statements"`
	// Allow permits allowances; otherwise the list may only ban.
	Allow bool `json:"allow,omitempty"`
	// Force permits networks wider than /8, or /19 of IPv6, and bans of trusted proxies.
	Force bool   `json:"force,omitempty"`
	By    string `json:"-"` // as in [Command]
}

// Done is the result of a command.
type Done struct {
	Client string `json:"client"` // as understood
	// where a ban or an allowance is: store, for all machines that share it; rules, in the file of this machine
	In      string     `json:"in,omitempty"`
	Changed int        `json:"changed"`         // limits reset, clients forgiven, rules written or removed
	Bans    int        `json:"bans,omitempty"`  // of unban: how many were lifted, as far as memory knows
	Until   *time.Time `json:"until,omitempty"` // when it ends by itself
	Notes   []string   `json:"notes,omitempty"` // what else a person should know
}

// Notified is the result of a message to a webhook.
type Notified struct {
	Webhook string `json:"webhook"`         // its host: the rest of its URL may hold a key
	Error   string `json:"error,omitempty"` // "" if it has taken the message
}

// OneLine returns a reason as a single line of permitted length.
func OneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(text,
		func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }), " ")
	if runes := []rune(text); len(runes) > MaxReason {
		return string(runes[:MaxReason])
	}
	return text
}
