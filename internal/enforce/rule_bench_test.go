package enforce_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// BenchmarkRules measures the cost of bans and allowances for a request that none applies to:
// one that a limit passes, and one that is only looked up.
func BenchmarkRules(b *testing.B) {
	for _, n := range []int{0, 100_000} {
		lines := manyBans(n)
		b.Run(fmt.Sprintf("serve/rules=%d", n), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "rules")
			if err := os.WriteFile(path, lines, 0o600); err != nil {
				b.Fatal(err)
			}
			h := handlertest.Start(b, &config.App{RulesFile: path}, &config.Handler{Zones: []*config.Zone{{Name: "bench", Limits: []config.Limit{{Amount: 1 << 40, Window: 366 * 24 * 3600e9}}}}})
			benchHandlerServe(b, h, 1000, 2)
		})
		b.Run(fmt.Sprintf("look/rules=%d", n), func(b *testing.B) {
			h := stating(b, string(lines))
			r, vars, _ := benchRequest()
			e := enforce.NewEvaluation(r)
			defer e.Release()
			e.Handler = h
			clients := benchClients(1 << 14)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				vars["client_ip"] = clients[i%len(clients)]
				if s, err := e.Rule(); s != nil || err != nil {
					b.Fatal(s, err)
				}
			}
		})
	}
}

// manyBans returns the text of a file with n bans of addresses above 64.0.0.0.
func manyBans(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for i := range n {
		text = fmt.Appendf(text, "ban %d.%d.%d.%d until 2999-12-01 # scraper\n", 64+i>>16, i>>8&255, i&255, random.IntN(256))
	}
	return text
}
