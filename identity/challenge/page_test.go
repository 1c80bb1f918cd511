package challenge

import (
	"crypto/sha256"
	"encoding/base64"
	stdhtml "html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/page"
)

func render(p Page) string { return string(p.Render()) }

var widget = &Widget{
	Script: "https://captcha.example/api.js", Class: "captcha", SiteKey: "the-site-key", Action: "visit",
	Sources: []string{"https://captcha.example", "https://*.captcha.example"},
}

func pages(t testing.TB) map[string]Page {
	puzzle := set(newSetter(t, 8, oneSecret))
	return map[string]Page{
		"puzzle": {Texts: language.Choose(""), Action: "/verify", Target: "/a?b=c", Puzzle: &puzzle, Retry: 42 * time.Second},
		"widget": {Texts: language.Choose(""), Action: "/verify", Target: "/a?b=c", Widget: widget, Notice: "That took too long."},
	}
}

// The script and style of the page are those allowed by its policy.
func TestPolicyAllowsThePage(t *testing.T) {
	for name, p := range pages(t) {
		html, policy := render(p), p.Policy()
		for element, directive := range map[string]string{"script": "script-src", "style": "style-src"} {
			inline := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(html, -1)
			if len(inline) != 1 {
				t.Fatalf("%s: %d inline %ss", name, len(inline), element)
			}
			sum := sha256.Sum256([]byte(inline[0][1]))
			if want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
				t.Errorf("%s: no %s in %s", name, want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: %s", name, policy)
		}
		if strings.Contains(html, "style=") || regexp.MustCompile(`\son\w+=`).MatchString(html) {
			t.Errorf("%s: inline attributes that the policy forbids", name)
		}
	}
}

func TestPageLoadsNothingElse(t *testing.T) {
	html := strings.Replace(render(pages(t)["puzzle"]), `<link rel="icon" href="data:,">`, "", 1) // so that no icon is asked for
	if found := regexp.MustCompile(`(?:src|href)=\S*|https?://\S*|url\(\S*`).FindString(html); found != "" {
		t.Errorf("the page refers to %s", found)
	}
}

func TestPageOfAWidget(t *testing.T) {
	p := pages(t)["widget"]
	html, policy := render(p), p.Policy()
	for _, want := range []string{
		`<script src="https://captcha.example/api.js" async defer></script>`, `class="widget captcha"`,
		`data-sitekey="the-site-key"`, `data-action="visit"`, `data-callback="tallyDone"`, "That took too long.",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if want := "frame-src https://captcha.example https://*.captcha.example"; !strings.Contains(policy, want) {
		t.Errorf("no %s in %s", want, policy)
	}
	if strings.Contains(html, "data-puzzle") || strings.Contains(html, "and nobody else learns") {
		t.Error("the page speaks of a puzzle")
	}
}

// Without JavaScript the page goes on by itself when the time is over, with the token and the
// target. Where there is no token, it asks to switch JavaScript on.
func TestPageWithoutScript(t *testing.T) {
	p := pages(t)["puzzle"]
	refresh := regexp.MustCompile(`<noscript><meta http-equiv="refresh" content="([0-9]+);url=([^"]*)"></noscript>`)
	if html := render(p); refresh.MatchString(html) || !strings.Contains(html, language.Choose("").NoScript) {
		t.Error("a page without a token goes on by itself")
	}
	p.Target = `/a?b=c&d="e'f;g <h>`
	p.Wait = &Wait{Token: "the-token", Seconds: 11}
	html := render(p)
	found := refresh.FindStringSubmatch(html)
	if found == nil || found[1] != "11" {
		t.Fatalf("the page does not go on by itself:\n%s", html)
	}
	next, err := url.Parse(stdhtml.UnescapeString(found[2]))
	if err != nil || next.Path != "/verify" || next.Query().Get("wait") != "the-token" || next.Query().Get("target") != p.Target {
		t.Errorf("it goes on to %v, %v", found[2], err)
	}
	if strings.Contains(html, language.Choose("").NoScript) || !strings.Contains(html, `This page goes on by itself in 11 seconds. <a href="`+found[2]+`">Continue</a>`) {
		t.Errorf("it doesn't say so:\n%s", html)
	}
}

// Values from a client are escaped.
func TestPageEscapes(t *testing.T) {
	p := pages(t)["puzzle"]
	p.Target, p.Notice = `/"><script>alert(1)</script>`, `<b onclick=alert(1)>`
	html := render(p)
	if strings.Contains(html, "<script>alert") || strings.Contains(html, "<b onclick") {
		t.Error("the page has a script that is not its own")
	}
}

// The page and what its script says are in one language, and name the site and its contact.
func TestPageInEveryLanguage(t *testing.T) {
	own := regexp.MustCompile(`(?s)<(style|script)>.*?</(style|script)>`)
	for _, texts := range language.All() {
		for name, p := range pages(t) {
			p.Texts, p.Site, p.Reference = texts, page.Site{Name: "Example & Söhne", Contact: "https://example.com/help"}, page.Reference{Short: "short", Whole: "the-reference"}
			html := own.ReplaceAllString(render(p), "")
			wanted := []string{
				`<html lang="` + texts.Tag + `">`, "<title>" + texts.Moment + " – Example &amp; Söhne</title>", `data-done="` + texts.Done, `data-slow="` + texts.Slow,
				`data-cookies="` + texts.NoCookies, `data-circles="` + texts.InCircles, `data-unloaded="` + texts.Unloaded, `data-solving="` + texts.Solving,
				texts.NoScript, texts.Again, texts.Why, texts.Shared, texts.Cookie, texts.Reference + " <code>short</code>", "<code>the-reference</code>",
				texts.Contact + ` <a href="https://example.com/help">https://example.com/help</a>`,
			}
			if name == "puzzle" {
				wanted = append(wanted, texts.Puzzle, texts.PuzzleDoes, texts.Private, texts.ComeBack(p.Retry))
			} else {
				wanted = append(wanted, texts.Widget, texts.WidgetDoes)
			}
			for _, want := range wanted {
				if !strings.Contains(html, want) {
					t.Errorf("%s, %s: the page lacks %s", texts.Tag, name, want)
				}
			}
			if english := language.Choose(""); texts != english && strings.Contains(html, english.Again) {
				t.Errorf("%s, %s: the page has English on it", texts.Tag, name)
			}
		}
	}
}

func BenchmarkRender(b *testing.B) {
	p := pages(b)["puzzle"]
	b.ReportAllocs()
	for b.Loop() {
		render(p)
	}
}
