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
