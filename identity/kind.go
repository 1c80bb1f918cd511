package identity

// Kind is the kind of a client's identity.
type Kind uint8

// The kinds of clients, from the one that is trusted least.
const (
	Unknown     Kind = iota // an address that can't be read: all of them are one client
	ByPrefix                // its network
	Fingerprint             // its browser's header fields, within its network
	Session                 // a signed cookie that it earned
	APIKey                  // a key that the operator gave it
)

var kindNames = [...]string{"unknown", "prefix", "fingerprint", "session", "api_key"}

// String returns the kind as it is written in placeholders and metrics.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Unknown]
}

// Verified reports whether a client can't choose its identity at will.
func (k Kind) Verified() bool { return k == Session || k == APIKey }
