package config

import (
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// parsedAs parses lines in the block that has the word of their first one.
func parsedAs(lines string) (*Handler, error) {
	h, token := new(Handler), MatcherToken(func() (caddy.ModuleMap, bool, error) { return caddy.ModuleMap{}, true, nil })
	switch word, _, _ := strings.Cut(lines, " "); {
	case strings.HasPrefix(lines, "zone ") && strings.Contains(lines, "{"):
	case word == "match" || word == "per" || word == "shadow" || word == "ban" || word == "count" || word == "scope" || word == "on_exceeded":
		lines = "zone login {\nlimit 5/1m\n" + lines + "\n}"
	case word == "events":
		lines = "zone login {\nwindow 1m\n" + lines + "\n}"
	case word == "window":
		lines = "zone login {\nevents 5\n" + lines + "\n}"
	case word == "limit":
		lines = "zone login {\n" + lines + "\n}"
	case word == "store" || word == "api_keys" || word == "session":
		return h, new(App).Unmarshal(caddyfile.NewTestDispenser("rate_limit {\n" + lines + "\n}"))
	}
	return h, h.Unmarshal(caddyfile.NewTestDispenser("rate_limit {\n"+lines+"\n}"), token)
}

// hintOf returns what the error about a line in a zone says to write, or else all of the error.
func hintOf(t *testing.T, line string) string {
	t.Helper()
	_, err := parsedAs("zone login {\n" + line + "\n}")
	if err == nil {
		t.Fatal("accepted")
	}
	text := err.Error()
	if i := strings.LastIndex(text, ", at "); i >= 0 {
		text = text[:i]
	}
	if i := strings.LastIndex(text, "write "); i >= 0 {
		return text[i+len("write "):]
	}
	return text
}

// perSecond returns the units per second of the first limit.
func perSecond(t *testing.T, h *Handler) *big.Rat {
	t.Helper()
	if len(h.Zones) != 1 || len(h.Zones[0].Limits) != 1 {
		t.Fatalf("got %d zones, want one with one limit", len(h.Zones))
	}
	l := h.Zones[0].Limits[0]
	return new(big.Rat).Mul(big.NewRat(l.Amount, int64(l.Window)), big.NewRat(int64(time.Second), 1))
}

// What the error about a rate says to write is a rate of the same amount per time.
func TestCuresOfRatesMeanWhatWasWritten(t *testing.T) {
	for _, tt := range []struct{ written, cure, perSecond string }{
		{"0.5/1s", "30/1m", "1/2"}, {"0.5r/s", "30/1m", "1/2"}, {"0.5 per second", "30/1m", "1/2"}, {"0.5rps", "30/1m", "1/2"}, {"2.5 rps", "150/1m", "5/2"},
		{"0.1/1s", "6/1m", "1/10"}, {"0.01/1s", "36/1h", "1/100"}, {"1.5/1m", "90/1h", "3/120"}, {"0.5/10s", "3/1m", "1/20"}, {"5.5/1h", "132/1d", "11/7200"}, {"2.0/1s", "2/1s", "2"},
		{"5rps", "5/1s", "5"}, {"5 qps", "5/1s", "5"}, {"60rpm", "60/1m", "1"}, {"3600rph", "3_600/1h", "1"}, {"rps 10", "10/1s", "10"},
		{"rate=10r/s", "10/1s", "10"}, {"rate=30r/m", "30/1m", "1/2"}, {"10kr/s", "10_000/1s", "10000"},
		{"5 1m", "5/1m", "1/12"}, {"5-M", "5/1m", "1/12"}, {"5-S", "5/1s", "5"}, {"5-H", "5/1h", "1/720"}, {"5:1m", "5/1m", "1/12"}, {"5 in 10s", "5/10s", "1/2"}, {"5 every 10 minutes", "5/10m", "1/120"},
		{"minute 60", "60/1m", "1"}, {"hour 3600", "3_600/1h", "1"}, {"1m 60", "60/1m", "1"}, {"1m/60", "60/1m", "1"}, {"minute=60", "60/1m", "1"},
		{"1k/1s", "1_000/1s", "1000"}, {"1K/1s", "1_000/1s", "1000"}, {"1M/1s", "1_000_000/1s", "1000000"}, {"1.5k/1s", "1_500/1s", "1500"},
		{"1,000/1s", "1_000/1s", "1000"}, {"1,000,000/1s", "1_000_000/1s", "1000000"}, {"1.000.000/1s", "1_000_000/1s", "1000000"},
		{"5/60", "5/60s", "1/12"}, {"5 60", "5/60s", "1/12"}, {"30/1month", "30/30d", "1/86400"}, {"60/2months", "60/60d", "1/86400"}, {"365/1y", "365/365d", "1/86400"}, {"365/year", "365/365d", "1/86400"},
		{"10rps burst 20", "10/1s burst 20", "10"}, {"10rps burst=20", "10/1s", "10"},
		{"60s/1h", "60_000/1h", "50/3"}, {"1m/1h", "60_000/1h", "50/3"}, {"500ms/1s", "500/1s", "500"}, // milliseconds, with settle duration
	} {
		t.Run(tt.written, func(t *testing.T) {
			if cure := hintOf(t, "limit "+tt.written); cure != tt.cure {
				t.Fatalf("told to write %q, want %q", cure, tt.cure)
			}
			h, err := parsedAs("limit " + tt.cure)
			if err != nil {
				t.Fatal(err)
			}
			if want, _ := new(big.Rat).SetString(tt.perSecond); perSecond(t, h).Cmp(want) != 0 {
				t.Errorf("%s are %v per second, want %v", tt.cure, perSecond(t, h), want)
			}
		})
	}
}

// An error says what is expected, and nothing else to write, where a rate can mean several things, or nothing.
func TestNoCureOfARateIsAGuess(t *testing.T) {
	for _, written := range []string{"5,5/1m", "5.000/1m", "5/1M", "5M", "0.5", "five/1m", "half/1s", "100%/1m", "1e3/1m", "5x/1m", "-1", "unlimited", "5/fortnight", "5/10 apples", "5/1m/ip", "60/hour/ip", "max 5/1m", "every 10s", "0.000001/1s", "5 10 20"} {
		t.Run(written, func(t *testing.T) {
			if hint := hintOf(t, "limit "+written); !strings.HasSuffix(hint, expectedRate) {
				t.Errorf("got %q, want %q", hint, expectedRate)
			}
		})
	}
}

// What the error about a line of another program says to write.
func TestLinesOfOtherPrograms(t *testing.T) {
	for _, tt := range [][2]string{
		// nginx
		{"limit_req_zone $binary_remote_addr zone=login:10m rate=5r/m", "limit 5r/m burst <burst + 1>"}, {"limit_req zone=login burst=20 nodelay", "limit <rate> burst <20 + 1>"},
		{"limit_conn addr 10", "limit 10 concurrent"}, {"limit_conn_zone $binary_remote_addr zone=addr:10m", "limit <n> concurrent"}, {"limit_req_dry_run on", "shadow"}, {"zone=login:10m rate=5r/s", "limit 5r/s burst <burst + 1>"},
		{"match ~ ^/wp-", "/wp-*"}, {"match ~ ^/api/.*$", "/api/*"}, {"match ^/api/.*", "/api/*"}, {"match ~ ^/login$", "/login"}, {"match ^~ /images/", "/images/*"}, {"match = /login", "/login"},
		{`match ~* \.php$`, `path_regexp (?i)\.php$`}, {"match ~ ^/(a|b)", "path_regexp ^/(a|b)"}, {"match ^/user/[0-9]+", "path_regexp ^/user/[0-9]+"}, {"location /login", "match /login"},
		// fail2ban
		{"maxretry = 3", "limit 3/<findtime>"}, {"findtime = 600", "limit <maxretry>/600s"}, {"findtime 1h", "limit <maxretry>/1h"}, {"bantime = 3600", "ban after 1 violation in <findtime> for 3600s"}, {"bantime = -1", "ban after 1 violation in <findtime> for 366d"},
		{"banip 203.0.113.7", "ban 203.0.113.7 into the rules file"},
		// HAProxy
		{"stick-table type ip size 100k expire 30s store http_req_rate(10s)", "limit <requests>/10s"}, {"http-request deny deny_status 429", "limit <requests>/<http_req_rate>"}, {"track-sc0 src", "per ip"}, {"maxconn 20", "limit 20 concurrent"},
		// Traefik, Kong, Cloudflare, Envoy, Azure
		{"average 100", "limit 100/<period> burst <burst>"}, {"average: 100", "limit 100/<period> burst <burst>"}, {"period 1m", "limit <amount>/1m"}, {"inFlightReq 10", "limit 10 concurrent"},
		{"second 5", "limit 5/1s"}, {"minute 60", "limit 60/1m"}, {"minute: 60", "limit 60/1m"}, {"config.hour=60", "limit 60/1h"}, {"day 60", "limit 60/1d"}, {"month 60", "limit 60/30d"}, {"year 60", "limit 60/365d"}, {"limit_by ip", "per ip"}, {"limit_by consumer", "per key {http.auth.user.id}"}, {"window_size 60", "limit <amount>/60s"},
		{"requests_per_period 100", "limit 100/<period>"}, {"mitigation_timeout 600", "ban after 1 violation in <period> for 600s"}, {`characteristics ["ip.src"]`, "per ip"},
		{"requests_per_unit 100", "limit 100/<unit>"}, {"unit minute", "limit <requests_per_unit>/1m"}, {"unit: HOUR", "limit <requests_per_unit>/1h"}, {"fill_interval 60s", "limit <tokens_per_fill>/60s burst <max_tokens>"}, {"max_tokens 9", "limit <tokens_per_fill>/<fill_interval> burst 9"},
		{"calls 10", "limit 10/<period>"}, {"renewal-period 60", "limit <amount>/60s"}, {"windowMs 60000", "limit <max>/60000ms"}, {"replenishRate 10", "limit 10/1s burst <burstCapacity>"},
		// none in particular
		{"rate 10r/s", "limit 10/1s"}, {"rate 0.5/1s", "limit 30/1m"}, {"rps 10", "limit 10/1s"}, {"rpm 10", "limit 10/1m"}, {"concurrent 2", "limit 2 concurrent"}, {"queue 10", "limit <requests> concurrent wait <duration> queue 10"},
		{"limit concurrent 2", "limit 2 concurrent"}, {"limit 2 connections", "limit 2 concurrent"}, {"interval 60", "window 60s"}, {"limit 5/1m for 1h", "ban after <n> violations in <duration> for <duration> into a line of its own"},
		{"ban after 5 violations in 10m for -1", "for 366d, the longest"}, {"ban AS64496", "into the site @banned asn AS64496 and respond @banned 403, each on a line of its own"}, {"ban DE", "into the site @banned country DE and respond @banned 403, each on a line of its own"},
		{"ban 203.0.113.7", "ban 203.0.113.7 into the rules file"}, {"deny 203.0.113.0/24", "ban 203.0.113.0/24 into the rules file"},
	} {
		t.Run(tt[0], func(t *testing.T) {
			if got := hintOf(t, tt[0]); got != tt[1] {
				t.Errorf("told to write\n%s\nwant\n%s", got, tt[1])
			}
		})
	}
}

// Each line that errors say to write in place of another program's parses, once its names have values.
func TestLinesInsteadOfOthersParse(t *testing.T) {
	rests := map[string]string{
		"match": "/login", "per": "ip", "exempt": "10.0.0.0/8", "zone": "a {\nlimit 5/1m\n}", "trap": "/x", "store": "x.db", "api_keys": "{\nfrom bearer\n}", "ban": "after 5 violations in 10m for 1h",
		"limit": "5/1m", "events": "5", "window": "10m",
	}
	times := regexp.MustCompile(`(/|for |in |wait )(<[a-zA-Z_]+>|\$[12])`)
	for _, r := range replacements() {
		if r.place != "line" || strings.HasPrefix(r.with, leaveOut) {
			continue
		}
		line := times.ReplaceAllString(r.with, "${1}1m")
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case rest == "$1" || rest == "sqlite $1":
			line = word + " " + strings.Replace(rest, "$1", rests[word], 1)
		default:
			line = regexp.MustCompile(`<status>`).ReplaceAllString(line, "401")
			line = regexp.MustCompile(`<path>`).ReplaceAllString(line, "/login")
			line = regexp.MustCompile(`<rate>|\$1 burst`).ReplaceAllStringFunc(line, func(s string) string { return strings.NewReplacer("<rate>", "5/1m", "$1", "5r/m").Replace(s) })
			line = regexp.MustCompile(`<[^>]+>|\$1`).ReplaceAllString(line, "7")
		}
		line = strings.NewReplacer("${1}ms", "60000ms").Replace(line)
		if _, err := parsedAs(line); err != nil {
			t.Errorf("%v: %s, such as %s: %v", r.form, r.with, line, err)
		}
	}
}
