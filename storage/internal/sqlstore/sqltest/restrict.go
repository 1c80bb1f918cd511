package sqltest

import (
	"errors"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Restriction is what an administrator may do to the user of a store.
type Restriction struct {
	// Do restricts the user, and Undo takes that back. PLACE is the prefix of the tables.
	Do, Undo string
	// Says is in the error of each claim meanwhile. "" means that claims may succeed.
	Says string
}

// App is the user that is restricted.
const App = "app"

// Restricted has an administrator restrict the user of a store, and take that back. Claims fail
// meanwhile or don't, and say what is wrong. Every unit that was granted is charged, and none else.
// end ends all sessions of the user.
func (k *Kind) Restricted(t *testing.T, make, end string, restrictions []Restriction) {
	server, o, l := k.Server(t), k.Options(), large(t)
	do := func(statements string) {
		t.Helper()
		for statement := range strings.SplitSeq(strings.ReplaceAll(statements, "PLACE", o.Prefix), "; ") {
			k.exec(t, server, statement)
		}
	}
	do(make)
	open, err := k.Opener(strings.Replace(server.DSN(server.Port), testserver.User+":", App+":", 1), o)
	if err != nil {
		t.Fatal(err)
	}
	s, taken := opened(t, open), int64(0)
	for _, r := range restrictions {
		if err := take(s, l, 1); err != nil {
			t.Fatal(err)
		}
		taken++
		do(r.Do)
		k.exec(t, server, end)
		for range 5 {
			err := take(s, l, 1)
			if err == nil {
				taken++
			}
			if errors.Is(err, storage.ErrUnknownOutcome) || errors.Is(err, storage.ErrLostWrites) {
				t.Errorf("%s: %v", r.Do, err)
			}
			if r.Says != "" && (err == nil || !strings.Contains(err.Error(), r.Says)) {
				t.Errorf("%s: a claim says %v, want %q in it", r.Do, err, r.Says)
				break
			}
		}
		do(r.Undo)
		k.exec(t, server, end)
		if got := used(t, s, l, 1); got != taken {
			t.Errorf("%s: %d units were granted, %d are charged", r.Do, taken, got)
		}
	}
}
