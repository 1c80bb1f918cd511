package page

import (
	"html/template"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/language"
)

// example is a page with all optional parts.
type example struct {
	texts     *language.Texts
	site      Site
	retry     time.Duration
	reference Reference
}

func full(texts *language.Texts) example {
	return example{texts, Site{Name: "Example & Söhne", Contact: "help@example.com"}, 42 * time.Second, Reference{"es6vg-mf38q", strings.Repeat("es6vgmf3", 8)}}
}

func render(t testing.TB, e example) string {
	t.Helper()
	p := Refused{Site: e.site}
	return string(p.Append(nil, e.texts, e.retry, e.reference))
}

// The policy allows exactly the script and style that a browser finds in the page.
func TestPolicyAllowsThePage(t *testing.T) {
	html := render(t, full(language.Choose("")))
	for element, directive := range map[string]string{"script": "script-src ", "style": "style-src "} {
		inline := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(html, -1)
		if len(inline) != 1 || !strings.Contains(RefusedPolicy, directive+Source(inline[0][1])) {
			t.Errorf("the policy %s doesn't allow the %d inline %ss", RefusedPolicy, len(inline), element)
		}
	}
	if strings.Contains(RefusedPolicy, "unsafe") || strings.Contains(html, "style=") || regexp.MustCompile(`\son\w+=`).MatchString(html) {
		t.Errorf("the page has what the policy forbids, or the policy is %s", RefusedPolicy)
	}
	own := strings.NewReplacer(`<link rel="icon" href="data:,">`, "", `href=""`, "", `href="mailto:help@example.com"`, "").Replace(html)
	if found := regexp.MustCompile(`(?:src|href)=\S*|https?://\S*|url\(\S*`).FindString(own); found != "" {
		t.Errorf("the page refers to %s", found)
	}
}

func TestPageInEveryLanguage(t *testing.T) {
	for _, texts := range language.All() {
		html := render(t, full(texts))
		when := strings.Replace(texts.Come, "%s", "<b>"+texts.Wait(42*time.Second)+"</b>", 1)
		for _, want := range []string{
			`<html lang="` + texts.Tag + `">`, "<title>" + texts.Title + " – Example &amp; Söhne</title>", when, `data-wait="42"`, texts.Lead, texts.Again,
			texts.Reference + " <code>es6vg-mf38q</code>", "<code>" + full(texts).reference.Whole + "</code>", texts.Contact + ` <a href="mailto:help@example.com">help@example.com</a>`,
		} {
			if !strings.Contains(html, want) {
				t.Errorf("%s: the page lacks %s:\n%s", texts.Tag, want, html)
			}
		}
		if strings.Contains(html, texts.Never) {
			t.Errorf("%s: the page says that waiting doesn't help", texts.Tag)
		}
		if len(html) >= 6000 {
			t.Errorf("%s: the page has %d bytes", texts.Tag, len(html))
		}
	}
}

// Without a time there is no countdown, and empty parts are omitted.
func TestPageWithoutATime(t *testing.T) {
	html := render(t, example{texts: language.Choose("")})
	if !strings.Contains(html, language.Choose("").Never) {
		t.Error("the page doesn't say that waiting doesn't help")
	}
	for _, part := range []string{"<script>", language.Choose("").Again, language.Choose("").Reference, language.Choose("").Contact, `class="site"`, "–", `class="ask"`} {
		if strings.Contains(html, part) {
			t.Errorf("the page has %s", part)
		}
	}
}

func TestLink(t *testing.T) {
	for contact, want := range map[string]string{
		"": "", "help@example.com": "mailto:help@example.com", "https://example.com/help?a=b": "https://example.com/help?a=b", "tel:+4912345": "tel:+4912345",
		"mailto:help@example.com": "mailto:help@example.com", "the front desk": "", "Help <help@example.com>": "", "javascript:alert(1)": "", "data:text/html,x": "",
		"//example.com": "", "https:example.com": "", "http://": "", "example.com": "", "%": "", "JavaScript:alert(1)//@example.com": "",
	} {
		if got := (Site{Contact: contact}).Link(); got != want {
			t.Errorf("%q links to %q, want %q", contact, got, want)
		}
	}
}

// One site's pages differ according to their parameters, in any order of creation.
func TestPagesOfOneSite(t *testing.T) {
	p := Refused{Site: Site{Name: "Example" + gap}}
	for range 2 {
		for _, texts := range language.All() {
			for _, retry := range []time.Duration{0, 42 * time.Second, time.Hour} {
				for _, reference := range []Reference{{}, {"<one>", "<of one>"}, {"two", "of two"}} {
					got := p.Append([]byte("before "), texts, retry, reference)
					want := "before " + render(t, example{texts, Site{Name: "Example"}, retry, reference})
					if string(got) != want {
						t.Fatalf("%s, %v, %q:\n%s\nwant\n%s", texts.Tag, retry, reference, got, want)
					}
				}
			}
		}
	}
}

// The page of a line says how many wait in every language, and neither a countdown nor a script.
func TestPageOfALine(t *testing.T) {
	p := Refused{Site: Site{Name: "Example"}}
	for _, texts := range language.All() {
		html := p.AppendLine(nil, texts, 1234)
		if before, after, _ := strings.Cut(texts.Line, "%s"); !strings.Contains(string(html), template.HTMLEscapeString(before)+"<b>1234</b>"+template.HTMLEscapeString(after)) {
			t.Errorf("%s:\n%s", texts.Tag, html)
		}
		for _, not := range []string{"<script", texts.Never, texts.Lead, texts.Again, gap} {
			if strings.Contains(string(html), not) {
				t.Errorf("%s: the page has %q", texts.Tag, not)
			}
		}
	}
}

// For all sites, the name and contact are texts on the page.
func FuzzRefused(f *testing.F) {
	tags := regexp.MustCompile(`<[^>]*>`)
	f.Add("Example", "help@example.com", "abc", int64(42))
	f.Add(`</p><script>alert(1)</script>`, `https://example.com/"onclick=alert(1)`, `"'><b>`, int64(-1))
	f.Add("{{.}}", "javascript:alert(1)", "%s", int64(1<<62))
	f.Fuzz(func(t *testing.T, name, contact, reference string, seconds int64) {
		if strings.Trim(name, gap) == "" || strings.Trim(contact, gap) == "" || reference == "" || seconds > 1<<33 {
			return
		}
		plain := example{language.Choose(""), Site{Name: "x", Contact: "x"}, time.Duration(seconds) * time.Second, Reference{"x", "x"}}
		given := plain
		given.site, given.reference = Site{Name: name, Contact: contact}, Reference{reference, reference}
		link := given.site.Link()
		want, got := tags.FindAllString(render(t, plain), -1), tags.FindAllString(render(t, given), -1)
		if link != "" {
			if extra := len(got) - len(want); extra != 2 {
				t.Fatalf("a link makes %d tags more", extra)
			}
			return
		}
		if strings.Join(got, "") != strings.Join(want, "") {
			t.Fatalf("the tags are %q, want %q", got, want)
		}
	})
}

func BenchmarkRefused(b *testing.B) {
	e := full(language.Choose(""))
	p := Refused{Site: e.site}
	var room []byte
	b.ReportAllocs()
	for b.Loop() {
		room = p.Append(room[:0], e.texts, e.retry, e.reference)
	}
}
