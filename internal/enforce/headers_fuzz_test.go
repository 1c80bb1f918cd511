package enforce

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// For all texts, a request's cost is an integer of at least 0, and 1 if the text isn't an integer.
// If the digits alone exceed any limit, the text after them doesn't matter.
func FuzzCost(f *testing.F) {
	for _, seed := range []string{"", "0", "1", " 7 ", "-0", "-1", "+5", "007", "1e3", "1_000", "9223372036854775807", "9223372036854775808",
		"-9223372036854775809", "99999999999999999999999999", "18700000000000000000A", "0x10", "½", "{http.request.header.X-Cost}"} {
		f.Add(seed)
	}
	costly := &Zone{Cost: CostRule{From: "{http.request.header.X-Cost}"}}
	f.Fuzz(func(t *testing.T, header string) {
		repl := caddy.NewEmptyReplacer()
		repl.Set("http.request.header.X-Cost", header)
		cost, err := costly.costOf(&Evaluation{Verdict: Verdict{Repl: repl, Handler: new(Handler)}}, new(LimitSet))
		if err != nil {
			t.Fatal(err)
		}
		if want := costOf(header); cost != want {
			t.Errorf("the cost %q is %d, want %d", header, cost, want)
		}
	})
}

// costOf determines a cost in another way: a number that is too large has the highest cost.
func costOf(text string) int64 {
	text = strings.TrimSpace(text)
	digits, negative := strings.CutPrefix(text, "-")
	if !negative {
		digits = strings.TrimPrefix(text, "+")
	}
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	whole := end < 0
	if whole {
		end = len(digits)
	}
	n, ok := new(big.Int).SetString(digits[:end], 10)
	switch {
	case !ok, negative && n.Sign() > 0, negative && !whole:
		return 1
	case n.Cmp(new(big.Int).SetUint64(math.MaxUint64)) > 0, whole && !n.IsInt64():
		return math.MaxInt64
	case !whole:
		return 1
	}
	return n.Int64()
}

// For all texts, a key in memory is short, and different texts have different keys.
func FuzzKey(f *testing.F) {
	for _, seed := range [][2]string{
		{"a", "b"}, {"", "a"}, {"192.0.2.1", "::ffff:192.0.2.1"}, {strings.Repeat("k", 127), strings.Repeat("k", 128)},
		{strings.Repeat("k", 128), strings.Repeat("k", 129)}, {"\x00", "\x00\x00"}, {"d" + strings.Repeat("x", 32), "k"},
	} {
		f.Add(seed[0], seed[1])
	}
	keyed := &Zone{Per: PerKey, Key: "{http.request.header.X-Key}", OnEmptyKey: EmptyShare}
	f.Fuzz(func(t *testing.T, one, other string) {
		a, b := keyOf(keyed, one), keyOf(keyed, other)
		if len(a) > LongKey {
			t.Errorf("a key of %d bytes takes %d", len(one), len(a))
		}
		if (a == b) != (one == other) {
			t.Errorf("%q and %q count as %q and %q", one, other, a, b)
		}
	})
}

// keyOf returns the key of a request for a text.
func keyOf(z *Zone, text string) string {
	e := &Evaluation{Verdict: Verdict{Repl: caddy.NewEmptyReplacer()}}
	e.Repl.Set("http.request.header.X-Key", text)
	if _, err := z.appendKey(e); err != nil {
		panic(err)
	}
	e.shorten(0)
	return string(e.Keys)
}
