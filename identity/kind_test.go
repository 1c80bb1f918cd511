package identity

import "testing"

func TestKinds(t *testing.T) {
	for kind, want := range map[Kind]struct {
		name     string
		verified bool
	}{
		Unknown:     {"unknown", false},
		ByPrefix:    {"prefix", false},
		Fingerprint: {"fingerprint", false},
		Session:     {"session", true},
		APIKey:      {"api_key", true},
		APIKey + 1:  {"unknown", false},
	} {
		if kind.String() != want.name || kind.Verified() != want.verified {
			t.Errorf("kind %d is %q, verified %v; want %q, %v", kind, kind, kind.Verified(), want.name, want.verified)
		}
	}
}

// Operators see what a key names: the value of a zone's key, unless its tag says otherwise.
func TestKindsOfKeys(t *testing.T) {
	for tag, want := range map[byte]string{
		TagNetwork: "network", TagFingerprint: "client", TagSession: "session", TagAPIKey: "api_key", TagService: "service",
		TagEveryone: "all", TagUnknown: "unknown", TagText: "key", TagDigest: "key",
	} {
		if got := KeyKind(string(tag)); got != want {
			t.Errorf("a key with the tag %c is of the kind %q, want %q", tag, got, want)
		}
	}
}
