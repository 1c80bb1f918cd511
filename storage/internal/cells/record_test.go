package cells

import (
	"math"
	"reflect"
	"testing"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

func TestRecordAsBytes(t *testing.T) {
	for _, want := range []reputation.Record{
		{},
		{At: 1, Lost: 2, Level: reputation.High, Until: 3, Bans: 4, Counts: 5, Past: []reputation.Violation{{At: 6, Zone: 7, Reason: reputation.OverLimit}}},
		{At: math.MaxInt64, Lost: math.MinInt64, Until: -1, Counts: math.MaxInt64},
		{Past: []reputation.Violation{{At: -1}, {At: 1, Zone: math.MaxUint32}}},
	} {
		if got := ParseRecord(AppendRecord(nil, want)); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v comes back as %+v", want, got)
		}
	}
}

// What is read from damaged bytes can be clamped, and is written as it is read.
func FuzzParseRecord(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, from []byte) {
		r := ParseRecord(from)
		if again := ParseRecord(AppendRecord(nil, r)); !reflect.DeepEqual(again, r) {
			t.Fatalf("%x is read as %+v, and that as %+v", from, r, again)
		}
		r.Clamp(1_800_000_000e9)
	})
}
