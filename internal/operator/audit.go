package operator

import "time"

// AuditQuery says which acts to list.
type AuditQuery struct {
	Before time.Time // zero means now
	N      int       // at most; 0 means 50, and more than MaxItems is MaxItems
}

// Act is something that was done.
type Act struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`     // admin, a user of the dashboard, or config
	Action string    `json:"action"` // ban, unban, allow, disallow, reset, reveal or reload
	Target string    `json:"target"` // the client, as at rest
	Reason string    `json:"reason,omitempty"`
}
