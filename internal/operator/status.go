package operator

import "time"

// Status describes the rate limiter at one moment.
type Status struct {
	// Version is the version of the module, "" if it isn't known.
	Version string `json:"version,omitempty"`
	// Started is when this process began to decide.
	Started time.Time `json:"started"`
	Stores  []Store   `json:"stores"`
	// Rules is the file of bans and allowances.
	Rules RulesFile `json:"rules"`
	// History reports whether what is decided is kept for later.
	History bool `json:"history"`
	// Shadow names the zones of which no limit is enforced.
	Shadow []string `json:"shadow,omitempty"`
	// Loaded names the zones that apply because of the load at the moment.
	Loaded []string `json:"loaded,omitempty"`
}

// Store is one store, and the memory in front of it.
type Store struct {
	Kind string `json:"store"`
	Path string `json:"path,omitempty"` // "" if it has no files
	// Degraded reports whether the store can't be used: memory decides, with smaller limits.
	Degraded  bool       `json:"degraded"`
	Since     *time.Time `json:"since,omitempty"`  // when that began
	Reason    string     `json:"reason,omitempty"` // what went wrong last
	Keys      int64      `json:"keys"`             // in memory, counted once per limit
	MaxKeys   int        `json:"max_keys"`
	Evicted   int64      `json:"evicted_keys"`            // since the start, to make room for others
	Bytes     int64      `json:"store_bytes"`             // 0 if unknown
	Journal   int64      `json:"journal_bytes,omitempty"` // of them, the journal: a file of fixed size
	Processes int        `json:"processes,omitempty"`     // that use the store; 0 if unknown

	Network *Network `json:"network,omitempty"` // nil unless the store is on a network

	Region *Region `json:"region,omitempty"` // nil unless counts are shared with other regions

	APIKeys *FileTrouble `json:"api_keys,omitempty"` // nil unless something is wrong with them
	Rules   *FileTrouble `json:"rules,omitempty"`    // nil unless something is wrong with the file
}

// Network describes how a store on a network is reached from this machine.
type Network struct {
	// RoundTrip is about how long a call takes.
	RoundTrip Seconds `json:"round_trip_seconds"`
	// Ahead is how far the clock of this machine is ahead of the store's time; negative if it is
	// behind. Counts go by the store's.
	Ahead Seconds `json:"clock_ahead_seconds"`
	// LostWrites is how many times the store has lost what it had acknowledged, since this process
	// was started.
	LostWrites int64 `json:"lost_writes"`
	// Unsettled is how many times, since this process was started, it could not learn whether its
	// last calls took effect. It has charged what it knew again then.
	Unsettled int64 `json:"unsettled"`
	// LaterLines is how many values in the store are sealed under a line of secret_file after the
	// first. While there are any, these lines are needed.
	LaterLines int `json:"sealed_under_later_lines"`
}

// Region describes how counts are shared with other regions.
type Region struct {
	Name     string `json:"name"`
	Exchange string `json:"exchange"` // where they are exchanged
	// Lag is how long ago all counts were exchanged.
	Lag    Seconds    `json:"lag_seconds"`
	Since  *time.Time `json:"since,omitempty"`  // since when that fails
	Reason string     `json:"reason,omitempty"` // what went wrong last
	Keys   int64      `json:"keys"`             // that are shared
	// Others is the other regions that were heard of.
	Others []OtherRegion `json:"others"`
}

// OtherRegion is a region that uses the same exchange.
type OtherRegion struct {
	Name     string  `json:"name"`
	Machines int     `json:"machines"`    // that were heard of in the last minutes
	Lag      Seconds `json:"lag_seconds"` // how long ago the last of them was
}

// FileTrouble is what is wrong with a file. What was read before is in force.
type FileTrouble struct {
	File   string    `json:"file"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// RulesFile describes the file of bans and allowances.
type RulesFile struct {
	Path       string       `json:"path"`
	Bans       int          `json:"bans"`
	Allowances int          `json:"allowances"`
	Trouble    *FileTrouble `json:"trouble,omitempty"`
	Store      *StoredRules `json:"store,omitempty"` // nil unless machines share the store
}

// StoredRules describes the bans and allowances that hold on all machines which share a store.
type StoredRules struct {
	Bans       int `json:"bans"`
	Allowances int `json:"allowances"`
}
