package config

import (
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// All texts after `limit` are read or refused. Of those that are read, some words are taken.
func FuzzRate(f *testing.F) {
	for _, s := range []string{"5/1m", "10r/s burst 5", "500MB/1h burst 1GiB", "99999999999999EB/1h", "100 per 1 minute", "1k/1m", "5-M", "5/", "/1m", "5 / 1", "9999999999999999999/9999999999999w", "5/99999w", "60s/1h", "0.5/1s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		words := strings.Fields(s)
		if len(words) == 0 {
			return
		}
		limit, taken, err := readRate(words)
		if err == nil && (taken < 1 || taken > len(words) || time.Duration(limit.Window) < 0) {
			t.Errorf("%q is %+v, of %d words", words, limit, taken)
		}
	})
}

// inBlock reads a line in a zone, with a limit beside it unless it is one.
func inBlock(line string) error {
	if !strings.HasPrefix(line, "limit ") {
		line = "limit 5/1m\n" + line
	}
	token := func() (caddy.ModuleMap, bool, error) { return caddy.ModuleMap{}, true, nil }
	return new(Handler).Unmarshal(caddyfile.NewTestDispenser("rate_limit {\nzone login {\n"+line+"\n}\n}"), token)
}

// What errors about frequent mistakes say to write is valid where they say it.
func TestCuresOfMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"limit 1/1month":                           "limit 1/month fixed",
		"limit 1000 per month":                     "limit 1_000/month fixed",
		"limit 10r/m burst=20":                     "limit 10r/m burst 20",
		"limit 5/1m sliding burst=20":              "",
		"limit 5/1m burst=20 nodelay":              "limit 5/1m burst 20",
		"limit 0.5/1s burst 5":                     "",
		"limit five/month":                         "",
		"rate fast":                                "",
		"per {a} {b}":                              "",
		"burst 5":                                  "",
		"limit 0.5/s":                              "limit 30/1m",
		"limit 0.5/1s":                             "limit 30/1m",
		"limit 0.2/1s":                             "limit 12/1m",
		"limit .25r/s":                             "limit 15/1m",
		"limit 1.5 per minute":                     "limit 90/1h",
		"limit concurrent 4":                       "limit 4 concurrent",
		"limit 4 connections":                      "limit 4 concurrent",
		"rate 10r/s":                               "limit 10r/s",
		"per remote_ip":                            "per ip",
		"per {remote_host}":                        "per ip",
		"per {http.request.remote.host}":           "per ip",
		"per {http.request.header.X-Tenant}":       "per key {http.request.header.X-Tenant}",
		"per key {http.request.header.X-Tenant} x": "",
		"limit 5":                                  "",
		"limit five/1m":                            "",
		"limit 0.0001/1s":                          "",
	} {
		err := inBlock(line)
		if err == nil {
			t.Errorf("%s: accepted", line)
			continue
		}
		_, write, _ := strings.Cut(err.Error(), ": write ")
		write, _, _ = strings.Cut(write, ", at ")
		write, _, _ = strings.Cut(write, ", or ")
		if write != want {
			t.Errorf("%s: error is %v, want it to say to write %q", line, err, want)
		}
		if want != "" {
			if err := inBlock(want); err != nil {
				t.Errorf("%s: %s, as the error says to write: %v", line, want, err)
			}
		}
	}
}
