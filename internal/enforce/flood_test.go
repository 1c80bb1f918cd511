package enforce_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/crawler"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// strangersDNS has no crawler's name for any address.
type strangersDNS struct{}

func (strangersDNS) LookupAddr(context.Context, string) ([]string, error) {
	return []string{"crawl.googlebot.com.example."}, nil
}

func (strangersDNS) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, nil
}

// recipeHandler returns the handler of a recipe with more lines.
func recipeHandler(t *testing.T, recipe, more string) *config.Handler {
	t.Helper()
	text, err := os.ReadFile("../../examples/recipes/" + recipe + ".Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?s)\.com \{\n\trate_limit \{\n(.*?)\n\t\}\n`).FindSubmatch(text)
	if block == nil {
		t.Fatalf("there is no handler in the recipe %s", recipe)
	}
	return handlertest.Parse(t, more+"\n"+string(block[1]))
}

// sessionOf returns the cookie of a visitor who has solved the puzzle.
func sessionOf(t *testing.T, h *enforce.Handler, ip string) string {
	t.Helper()
	x := newExchangeOf(t, h, http.MethodPost, nil, ip)
	_, value := x.Client.Issue(x.Keys)
	value, _, _ = strings.Cut(value, ";")
	return value
}

// A crawler of 5,000 addresses with three requests a minute each stays below every limit of one
// client. With the recipe as it stands it adds at most a fifth to the load of a busy site, visitors
// with a session notice nothing, and calling itself Googlebot doesn't help.
func TestFloodOfManyAddresses(t *testing.T) {
	const each, visitors, pages = 3, 100, 60
	addresses, minutes := proof.Sample(2000, 5000), proof.Sample(1, 2)
	before := crawler.DNS
	defer func() { crawler.DNS = before }()
	crawler.DNS = strangersDNS{}
	bubble.Test(t, func(t *testing.T) {
		h := handlertest.Start(t, &config.App{Session: new(config.Session)}, recipeHandler(t, "ai-crawlers", "exempt verified_bot google bing"))
		var sessions [visitors]string
		ip := func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }
		for i := range sessions {
			sessions[i] = sessionOf(t, h, ip(i))
		}
		pass := func(from string, fields ...string) bool {
			passed := false
			a := askNext(h, "/page", from, func(http.ResponseWriter, *http.Request) error { passed = true; return nil }, fields...)
			return a.err == nil && passed
		}
		for minute := range minutes {
			var flood, googlebots, seen int
			for i := range addresses * each {
				agent := browser
				if i%10 == 0 {
					agent = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
				}
				if pass(fmt.Sprintf("10.%d.%d.%d", 1+i%addresses>>8, i%addresses&255, 7), "User-Agent", agent) {
					if flood++; agent != browser {
						googlebots++
					}
				}
				if i%(addresses*each/(visitors*pages)) == 0 && seen < visitors*pages {
					v := seen % visitors
					if seen++; !pass(ip(v), "Cookie", sessions[v]) {
						t.Errorf("minute %d: visitor %d was refused", minute, v)
					}
				}
				time.Sleep(time.Minute / time.Duration(addresses*each))
			}
			if normal := seen; normal != visitors*pages || flood > normal/5 {
				t.Errorf("minute %d: %d requests of the flood pass beside %d of visitors", minute, flood, normal)
			}
			if googlebots*8 > flood {
				t.Errorf("minute %d: %d of %d requests that pass call themselves Googlebot, one in ten do", minute, googlebots, flood)
			}
		}
	})
}
