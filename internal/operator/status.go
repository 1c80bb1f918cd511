package operator

import "time"

// Status describes the rate limiter at one moment.
type Status struct {
	// Version is the version of the module, or "" if it is unknown.
	Version string `json:"version,omitempty"`
	// Started is when this process began to decide.
	Started time.Time `json:"started"`
	// Requests are those since then, each counted once.
	Requests Counts  `json:"requests"`
	Stores   []Store `json:"stores"`
	// Rules is the file of bans and allowances.
	Rules RulesFile `json:"rules"`
	// Conduct describes the bans for violations; nil while nothing is counted.
	Conduct *ConductBans `json:"conduct,omitempty"`
	// Challenges is what became of challenges since this process began to decide.
	Challenges Challenges `json:"challenges"`
	// Undelivered is how many notifications could not be delivered since this process began to decide.
	Undelivered int64 `json:"undelivered_notifications,omitempty"`
	// History reports whether a history is kept.
	History bool `json:"history"`
	// Shadow names the zones without enforced limits.
	Shadow []string `json:"shadow,omitempty"`
	// Loaded names the zones that currently apply because of the load.
	Loaded []string `json:"loaded,omitempty"`
	// Advice is about the running config: doubtful parts of it, and what to write instead.
	Advice []Advice `json:"advice,omitempty"`
}

// Challenges is what became of challenges.
type Challenges struct {
	Shown  int64 `json:"shown"`
	Solved int64 `json:"solved"`
	Wrong  int64 `json:"wrong"` // solutions that weren't accepted
	// GivenUp is how many got no answer, or none yet.
	GivenUp int64 `json:"given_up"`
}

// Advice is a problem in a config.
type Advice struct {
	Problem string `json:"problem"`
	Write   string `json:"write,omitempty"`
	Zone    string `json:"zone,omitempty"`
	At      string `json:"at,omitempty"`  // the place in the config file, or the addresses of the server
	See     string `json:"see,omitempty"` // the part of the documentation
}

// Store is one store, and the memory in front of it.
type Store struct {
	Kind string `json:"store"`
	Path string `json:"path,omitempty"` // "" if it has no files
	// Degraded reports whether the store can't be used: memory decides, with reduced limits.
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

	History *FileTrouble `json:"history,omitempty"`  // nil unless it can't be written, as on a full disk
	APIKeys *FileTrouble `json:"api_keys,omitempty"` // nil unless something is wrong with them
	Rules   *FileTrouble `json:"rules,omitempty"`    // nil unless something is wrong with the file
	Names   *FileTrouble `json:"names,omitempty"`    // nil unless something is wrong with the file of the key of names
}

// Network describes the connection to a store on a network.
type Network struct {
	// RoundTrip is the approximate duration of a call; 0 until a request has needed the store.
	RoundTrip Seconds `json:"round_trip_seconds"`
	// Ahead is how far the clock of this machine is ahead of the store's time; negative if it is
	// behind. Counts use the store's time.
	Ahead Seconds `json:"clock_ahead_seconds"`
	// Server is how far the clock of the server is ahead of that of this machine; negative if it is behind.
	Server Seconds `json:"server_clock_ahead_seconds"`
	// LostWrites is how many times the store has lost acknowledged writes, since this process was
	// started.
	LostWrites int64 `json:"lost_writes"`
	// Unsettled is how many times, since this process was started, the outcome of the last calls
	// could not be determined. It has repeated the known charges then.
	Unsettled int64 `json:"unsettled"`
	// LaterLines is how many values in the store, bans, allowances and API keys among them, the first
	// line of secret_file doesn't open. While there are any, the other lines are needed. It is nil if
	// that isn't known: before the store was read, and while it can't be used.
	LaterLines *int `json:"sealed_under_later_lines"`
}

// Region describes the sharing of counts with other regions.
type Region struct {
	Name     string `json:"name"`
	Exchange string `json:"exchange"` // where they are exchanged
	// Lag is the time since the last complete exchange.
	Lag    Seconds    `json:"lag_seconds"`
	Since  *time.Time `json:"since,omitempty"`  // since when that fails
	Reason string     `json:"reason,omitempty"` // what went wrong last
	Keys   int64      `json:"keys"`             // that are shared
	// Faults are what keeps it from counting exactly with other regions, as texts. While there are any,
	// limits may admit more than is promised, or less.
	Faults []string `json:"faults,omitempty"`
	// Others are the other known regions.
	Others []OtherRegion `json:"others"`
}

// OtherRegion is another region on the same exchange.
type OtherRegion struct {
	Name     string  `json:"name"`
	Machines int     `json:"machines"`       // that were heard of in the last minutes
	Gone     int     `json:"gone,omitempty"` // others, that went within a day without a word
	Lag      Seconds `json:"lag_seconds"`    // how long ago the last of them was heard of
}

// FileTrouble is the problem of a file. The previous content stays in force.
type FileTrouble struct {
	File   string    `json:"file,omitempty"` // "" for a history
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// RulesFile describes the file of bans and allowances.
type RulesFile struct {
	Path string `json:"path"`
	RuleCounts
	Trouble *FileTrouble `json:"trouble,omitempty"`
	// those for all machines with the same store; nil unless machines share it and this one has read it
	Store *RuleCounts `json:"store,omitempty"`
	Lists []BlockList `json:"lists,omitempty"` // that others publish
}

// ConductBans describes the bans of clients for what they did.
type ConductBans struct {
	Bans int `json:"bans"` // that are known, on all machines that share the store
	// Last is when the last of them began; nil if none is known, or only for how long it holds.
	Last *time.Time `json:"last,omitempty"`
	// Missing is why there may be more, or "".
	Missing string `json:"missing,omitempty"`
}

// BlockList describes a list of banned addresses.
type BlockList struct {
	Name string `json:"name"` // the host of a URL, or the name of a file
	Bans int    `json:"bans"`
	// when it was last read, or found to be unchanged; nil if it wasn't since the start
	Read *time.Time `json:"read,omitempty"`
	// Reason is why it can't be read at present, while its last good version stays in force; or "".
	Reason string `json:"reason,omitempty"`
}

// RuleCounts are how many rules are in force.
type RuleCounts struct {
	Bans       int `json:"bans"`
	Allowances int `json:"allowances"`
	Raises     int `json:"raises,omitempty"`
}
