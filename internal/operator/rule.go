package operator

import "time"

// Rule is a ban, an allowance or a raise in force.
type Rule struct {
	Action Action `json:"action"`           // ban, allow or raise
	Factor string `json:"factor,omitempty"` // of a raise, such as 5x
	Client string `json:"client"`           // as in commands; "" if only its name at rest is known
	Text   string `json:"text"`             // for people
	Tag    string `json:"tag,omitempty"`    // as in [Key]
	// rules: an operator, in the file of this machine; store: an operator, for all machines; list: a block list;
	// conduct: its violations
	By     string     `json:"by"`
	Reason string     `json:"reason,omitempty"`
	Zone   string     `json:"zone,omitempty"`  // where the last violation was; of a raise, the only one
	Since  *time.Time `json:"since,omitempty"` // nil if unknown
	Until  *time.Time `json:"until,omitempty"` // nil: until it is lifted
}
