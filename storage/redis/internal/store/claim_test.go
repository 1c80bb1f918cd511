package store

import (
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Claims of many keys that all want the same are sent once. Those of a key that is named twice, and those that give
// something back, are sent by themselves.
func TestClaimsThatAreAlikeAreSentOnce(t *testing.T) {
	l := yearly(t)
	claims := make([]storage.Claim, 128)
	for i := range claims {
		claims[i] = storage.Claim{ID: 1, Key: storage.Key{byte(i)}, Limit: l, Claim: limiter.Claim{Min: 1, Want: 1, Extra: 16}}
	}
	b := batch{names: "{tally}", claims: claims}
	if q := b.request(began.UnixNano(), 0); len(q.keys) != 128 || len(q.args) != 5 || len(strings.Join(q.args, "")) > 200 {
		t.Errorf("%d keys, and %d arguments of %d bytes: %v", len(q.keys), len(q.args), len(strings.Join(q.args, "")), q.args)
	}
	claims[1].Key = claims[0].Key
	claims[2].Return = limiter.Lease{Units: 1}
	if q := b.request(began.UnixNano(), 0); strings.Count(q.args[0], "s ") != 3 || len(b.groups) != 1 || len(b.groups[0].members) != 125 {
		t.Errorf("three claims are no others' like: %v", q.args)
	}
}
