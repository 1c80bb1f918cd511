package store

import (
	"math"
	"strconv"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Each list keeps its newest acts. Charges displace nothing that operators did.
func TestActsAreBounded(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s := opened(t, at(server.Address()))
	if err := s.Audit(t.Context(), storage.Audit, &storage.Act{At: 1, Action: "ban"}); err != nil {
		t.Fatal(err)
	}
	const fill = `for n = 1, ARGV[1] do redis.call('ZADD', KEYS[1], 0, string.format('%016x', n) .. '{}') end`
	for log, most := range maxActs {
		server.Must(t, "EVAL", fill, "1", s.server.names.acts(storage.Log(log)), strconv.Itoa(most-1))
		for n := range int64(2) {
			act := storage.Act{At: math.MaxInt32 + n, Action: "last"}
			if err := s.Audit(t.Context(), storage.Log(log), &act); err != nil {
				t.Fatal(err)
			}
		}
		if kept, want := server.Must(t, "ZCARD", s.server.names.acts(storage.Log(log))), ":"+strconv.Itoa(most); kept != want {
			t.Errorf("list %d has %s acts, want %s", log, kept, want)
		}
		if last, err := s.Acts(t.Context(), storage.Log(log), math.MaxInt64, 3); err != nil || len(last) != 3 || last[1].Action != "last" || last[2].Action != "" {
			t.Errorf("list %d ends with %+v, %v", log, last, err)
		}
	}
}
