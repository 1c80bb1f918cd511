package trace

import (
	"strings"
	"testing"
)

// A trace within the rules passes; each other one breaks one of them.
func TestRules(t *testing.T) {
	l := Limit{Window: 10, Amount: 10, Slots: 10}
	grant := func(machine int, now int64, granted, back Lease) Claim {
		return Claim{Machine: machine, Key: "k", Limit: l, Now: now, Granted: granted, Back: back}
	}
	for _, c := range []struct {
		name, want string
		run        func(t *Trace, s *Store)
	}{
		{"what is granted is spent", "", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 5, Units: 6}, Lease{}))
			t.Spend(1, "k", l, 5, 4)
			t.Claimed(s, grant(1, 5, Lease{At: 5, Units: 3}, Lease{At: 5, Units: 2, Spent: 4}))
			t.Spend(1, "k", l, 5, 3)
		}},
		{"a spread lease is spent early", "", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 7, Span: 2, Units: 6}, Lease{}))
			t.Spend(1, "k", l, 5, 3)
			t.Spend(1, "k", l, 7, 1)
			t.Claimed(s, grant(1, 7, Lease{}, Lease{At: 7, Span: 2, Units: 2, Spent: 4, Lapsed: 1}))
		}},
		{"a window forgets", "", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 5, Units: 10}, Lease{}))
			t.Claimed(s, grant(2, 16, Lease{At: 16, Units: 10}, Lease{}))
		}},
		{"units come back", "", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 5, Units: 2}, Lease{}))
			t.Spend(1, "k", l, 5, 2)
			t.Unspend(1, "k", l, 5, 1)
			t.Spend(1, "k", l, 5, 1)
		}},
		{"more than was granted", "spends", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 5, Units: 2}, Lease{}))
			t.Spend(1, "k", l, 5, 3)
		}},
		{"what another was granted", "spends", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 5, Units: 2}, Lease{}))
			t.Spend(2, "k", l, 5, 1)
		}},
		{"after its slot", "from slot 6 on", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 5, Units: 2}, Lease{}))
			t.Spend(1, "k", l, 6, 1)
		}},
		{"a lapsed unit", "from slot 7 on", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 7, Span: 2, Units: 6}, Lease{}))
			t.Spend(1, "k", l, 7, 3)
		}},
		{"what was given back", "spends", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 5, Units: 2}, Lease{}))
			t.Claimed(s, grant(1, 5, Lease{}, Lease{At: 5, Units: 2}))
			t.Spend(1, "k", l, 5, 1)
		}},
		{"giving back what is spent", "gives back", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 5, Units: 2}, Lease{}))
			t.Spend(1, "k", l, 5, 2)
			t.Claimed(s, grant(1, 5, Lease{}, Lease{At: 5, Units: 1}))
		}},
		{"a token bucket, too", "spends", func(t *Trace, s *Store) {
			bucket := Limit{Amount: 10, Window: 10}
			t.Claimed(s, Claim{Machine: 1, Key: "k", Limit: bucket, Granted: Lease{Units: 2}})
			t.Spend(1, "k", bucket, 5, 3)
		}},
		{"a store that grants too much", "11 of 10 are in use", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 5, Units: 6}, Lease{}))
			t.Claimed(s, grant(2, 14, Lease{At: 14, Units: 5}, Lease{}))
		}},
		{"a store that forgets later slots", "12 of 10", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 9, Span: 4, Units: 6}, Lease{}))
			t.Claimed(s, grant(2, 5, Lease{At: 5, Units: 6}, Lease{}))
		}},
		{"a grant in the past", "before the present one", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 4, Units: 1}, Lease{}))
		}},
		{"after a crash", "after it has crashed", func(t *Trace, s *Store) {
			t.Claimed(s, grant(1, 5, Lease{At: 5, Units: 1}, Lease{}))
			t.Crash(1)
			t.Spend(1, "k", l, 5, 1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := New()
			c.run(tr, NewStore())
			switch err := tr.Err(); {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
