package operator

import "time"

// AuditQuery selects acts.
type AuditQuery struct {
	// Client restricts the list to acts about a client, and about networks that contain it: see
	// [ParseTarget]. "" means all acts.
	Client string `json:"client,omitempty"`
	// Charges selects what applications charged and gave back, instead of what operators did.
	Charges bool      `json:"charges,omitempty"`
	Before  time.Time `json:"before,omitzero"` // zero means now
	N       int       `json:"n,omitempty"`     // at most; 0 means 50, and more than MaxItems is MaxItems
}

// Act is an entry of the audit.
type Act struct {
	At time.Time `json:"at"`
	By string    `json:"by"` // admin, a user of the dashboard, or config
	// ban, unban, allow, disallow, reset, reveal, explain, reload, key new, key tier or key revoke; among charges:
	// charge
	Action string `json:"action"`
	Target string `json:"target"` // an API key, a provider or a country by its name; any other client as at rest
	Reason string `json:"reason,omitempty"`
}
