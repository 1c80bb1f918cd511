package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
)

// restriction is a restriction by which an administrator limits the user of a store.
type restriction struct {
	// Do adds the restriction, and Undo removes it. PLACE is the prefix of the tables.
	Do, Undo string
	// Says is part of the error of each claim meanwhile. "" means that claims may succeed.
	Says string
}

// app is the restricted user.
const app = "app"

// restricted restricts the user of a store, and ends the restriction. Meanwhile claims either
// succeed, or fail with an error that names the reason. Exactly the granted units are charged. end
// ends all sessions of the user.
func restricted(t *testing.T, make, end string, restrictions []restriction) {
	server, o, l := sharedServer(t), newOptions(), large(t)
	do := func(statements string) {
		t.Helper()
		for statement := range strings.SplitSeq(strings.ReplaceAll(statements, "PLACE", o.Prefix), "; ") {
			exec(t, server, statement)
		}
	}
	do(make)
	s := openStore(t, placeOn(t, strings.Replace(server.DSN(server.Port), testserver.User+":", app+":", 1), o).Open)
	taken := int64(0)
	for _, r := range restrictions {
		if err := take(s, l, 1); err != nil {
			t.Fatal(err)
		}
		taken++
		do(r.Do)
		exec(t, server, end)
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
		exec(t, server, end)
		if got := used(t, s, l, 1); got != taken {
			t.Errorf("%s: %d units were granted, %d are charged", r.Do, taken, got)
		}
	}
}
