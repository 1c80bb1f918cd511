package caddytest

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
)

var updateScreenshots = flag.Bool("screenshots.update", false, "take the pictures of the documents anew")

// pictured is the site in the moving picture.
const pictured = `{
	admin {$ADMIN}
	persist_config off
	auto_https off
	rate_limit {
		store_timeout 1m
		session
		page {
			name "Example Library"
		}
	}
}

http://:{$PORT} {
	rate_limit {
		zone pages {
			match /
			per client
			limit 6/1m
			prefix_ceiling 1
			on_exceeded challenge
		}
	}
	header Content-Type "text/html; charset=utf-8"
	respond <<HTML
		<!doctype html>
		<html lang="en">
		<meta name="viewport" content="width=device-width, initial-scale=1">
		<meta name="color-scheme" content="light dark">
		<title>Example Library</title>
		<link rel="icon" href="data:,">
		<style>
			body { font: 1.05rem/1.6 Roboto, system-ui, sans-serif; margin: 2.5rem auto; max-width: 27rem; padding: 0 1.5rem }
			small { color: #6b7280 }
		</style>
		<h1>Example Library</h1>
		<p>A page as any other, behind <code>limit 6/1m</code> for each network, and for each session.</p>
		<p>You are known by your <b>{http.rate_limit.client.kind}</b>, and have
			<b>{http.rate_limit.pages.remaining}</b> requests left.</p>
		<p><small>Press reload.</small></p>
		HTML
}
`

// TestPictures films a browser that solves a challenge. It is for `make screenshots`, and checks
// nothing.
func TestPictures(t *testing.T) {
	if !*updateScreenshots {
		t.Skip("make screenshots takes pictures")
	}
	b := browser.Start(t, browser.Find(t))
	for scheme, isDark := range map[string]bool{"light": false, "dark": true} {
		t.Run(scheme, func(t *testing.T) {
			s := startCaddy(t, pictured)
			film := filmChallenge(t, b, "http://site.test:"+s.port+"/", browser.View{Width: 640, Height: 570, Dark: isDark})
			picture, err := film.GIF()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("../docs/pictures/challenge-"+scheme+".gif", picture, 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// filmChallenge films how a page is called up until its limit is used up, and what comes then.
func filmChallenge(t *testing.T, b *browser.Browser, address string, v browser.View) *browser.Film {
	t.Helper()
	page := b.Open(t, v)
	page.Go(address)
	return page.Film(func() {
		const aMoment = `new Promise((done) => setTimeout(done, 500))` // for people to see it
		for range 5 {
			page.Eval(aMoment, nil)
			page.Go(address)
		}
		page.Eval(aMoment, nil)
		page.Load(func() { page.Go(address) })
		page.Wait(`document.title === "Example Library" && document.readyState === "complete"`)
		page.Eval(aMoment, nil)
	}, 3*time.Second)
}
