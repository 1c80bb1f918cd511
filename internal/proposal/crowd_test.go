package proposal_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// comeAsCrowd writes a request each of many networks, for pages of which {n} is a number.
func (l *logOf) comeAsCrowd(host string, networks int, from func(n int) string, pages ...string) {
	for i := range networks {
		l.wait(200_000_000)
		l.add(host, from(i), "GET", strings.ReplaceAll(pages[i%len(pages)], "{n}", fmt.Sprint(i)), 200, `"User-Agent":["Mozilla/5.0"]`)
	}
}

// anywhere returns addresses of as many large networks.
func anywhere(n int) string { return fmt.Sprintf("%d.%d.9.7", 20+n%150, n%251) }

// crowds are what crowds ask for, and the recipes' zones for it.
var crowds = map[string]struct {
	pages []string
	zones []string
}{
	"a forge":       {[]string{"/alice/tool/blame/commit/{n}/a.go", "/alice/tool/commit/{n}", "/alice/tool/compare/{n}...main", "/alice/tool/src/commit/{n}/a.go"}, []string{"forgejo: git_example_com_crowd"}},
	"a forge's all": {[]string{"/alice/tool/commit/{n}", "/alice/tool/archive/{n}.zip"}, []string{"forgejo: git_example_com_crowd", "forgejo: git_example_com_archives"}},
	"cgit":          {[]string{"/tool/log/?ofs={n}", "/tool/commit/?id={n}", "/tool/tree/?id={n}", "/tool/diff/?id={n}"}, []string{"git: git_example_com_git_crowd"}},
	"MediaWiki":     {[]string{"/w/index.php?title=Page&oldid={n}", "/wiki/Special:WhatLinksHere/P{n}", "/wiki/Page?action=history&offset={n}"}, []string{"wiki: git_example_com_wiki_crowd"}},
	"DokuWiki":      {[]string{"/doku.php?id=page&rev={n}", "/page?do=revisions&first={n}"}, []string{"wiki: git_example_com_wiki_crowd"}},
	"a shop":        {[]string{"/shop/?filter_color=red&min_price={n}", "/c/chairs/?orderby=price&filter_size={n}"}, []string{"shop: git_example_com_shop_crowd"}},
	"WordPress":     {[]string{"/?s=word{n}", "/wp-json/wp/v2/posts?search={n}", "/search/word{n}"}, []string{"wordpress: git_example_com_wordpress_crowd"}},
	"other pages":   {[]string{"/page/{n}", "/alice/tool/issues/{n}", "/wiki/Page{n}"}, nil},
}

// A crowd in a log gets the zone of the recipe for the pages that it asks for, with the global option that the zone
// needs, and no other; what else is proposed is what people's requests alone lead to.
func TestCrowdsGetTheirZones(t *testing.T) {
	const host = "git.example.com"
	for name, c := range crowds {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			file := write(t, filepath.Join(folder, "Caddyfile"), host+" {\n\treverse_proxy app:80\n}\n")
			proposed := func(l *logOf) string {
				out, err := ran(t, file, false, "--log", write(t, filepath.Join(folder, "access.log"), l.String()))
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			people := newLog(1)
			people.people(host, 20, []string{"/page/%d", "/", "/api/items/%d", "/assets/%d.css"}, "/login")
			alone := comments.ReplaceAllString(proposed(people), "")
			people.comeAsCrowd(host, proof.Sample(400, 2000), anywhere, c.pages...)
			out := proposed(people)
			got := comments.ReplaceAllString(out, "")
			for _, zone := range c.zones {
				recipe, zone, _ := strings.Cut(zone, ": ")
				zone = "zone " + zone + " {\n"
				_, block, _ := strings.Cut(got, zone)
				block, end, ok := strings.Cut(block, "\n\t\t}\n")
				if !ok {
					t.Fatalf("expected %s in\n%s", zone, out)
				}
				got = strings.Replace(got, "\t\t"+zone+block+"\n\t\t}\n"+end, end, 1)
				wantSays(t, unwrapped(out), "docs/recipes/"+recipe+".md\n\t\t"+zone)
				wantSays(t, block, "\t\t\tshadow # until", "\t\t\tper everyone\n", "\t\t\ton_exceeded challenge")
			}
			if len(c.zones) > 0 {
				const session = "{\n\trate_limit {\n\t\tsession\n\t}\n}\n"
				wantSays(t, got, session)
				got = strings.Replace(got, session, "", 1)
				got = strings.Replace(got, "\t\texempt verified_bot google bing\n", "", 1)
			}
			if len(c.zones) == 0 {
				wantSays(t, got, "zone git_example_com_all {")
			} else if got != alone {
				t.Errorf("got, but for the crowd,\n%s\nand without one\n%s", got, alone)
			}
			if strings.Contains(got, "challenge") {
				t.Errorf("too many zones in\n%s", out)
			}
		})
	}
}

// What one who has a large network of IPv4 and one of IPv6 asks for is a note, also in a site that hardly anybody
// else visits, and hides no crowd.
func TestNobodyIsACrowdAlone(t *testing.T) {
	for name, from := range map[string]func(n int) string{
		"a /16": func(n int) string { return fmt.Sprintf("198.51.%d.%d", n%256, n/256) },
		"a /32": func(n int) string { return fmt.Sprintf("2001:db8:%x:%x::1", n%1000, n) },
		"both": func(n int) string {
			return []string{fmt.Sprintf("198.51.%d.1", n/2), fmt.Sprintf("2001:db8:%x::1", n)}[n%2]
		},
		"99 places": func(n int) string { return fmt.Sprintf("%d.1.2.3", 20+n%99) },
		"10 nets":   func(n int) string { return fmt.Sprintf("%d.1.2.%d", 20+n%10, n/10) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, people := range []int{60, 0}[:proof.Sample(1, 2)] {
				folder := t.TempDir()
				file := write(t, filepath.Join(folder, "Caddyfile"), strings.Replace(app, "git.example.com", "http://git.example.com", 1))
				l := newLog(3)
				l.people("git.example.com", people, []string{"/alice/tool", "/assets/%d.css"}, "/user/login")
				l.comeAsCrowd("git.example.com", 500, from, crowds["a forge"].pages...)
				proposed := func() string {
					out, err := ran(t, file, false, "--log", write(t, filepath.Join(folder, "access.log"), l.String()))
					if err != nil {
						t.Fatal(err)
					}
					return out
				}
				out := proposed()
				if strings.Contains(out, "challenge") || strings.Contains(out, "session") {
					t.Errorf("beside %d people, one alone gets\n%s", people, out)
				}
				if people == 60 && !strings.Contains("99 places, 10 nets", name) { // which are too few to look for a crowd
					wantSays(t, unwrapped(out), "500 clients of few networks that ask for hardly anything but costly pages: docs/recipes/forgejo.md")
				}
				l.comeAsCrowd("git.example.com", 150, anywhere, "/tool/log/?ofs={n}", "/tool/tree/?id={n}")
				wantSays(t, proposed(), "zone git_example_com_git_crowd {")
			}
		})
	}
}

// A crowd's zone is written with the global option that it needs, wherever that belongs, and the Caddyfile loads
// before and after it is enforced. Where the option can't be written, the output says so.
func TestWriteForACrowd(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"no options":        {app, "{\n\trate_limit {\n\t\tsession\n\t}\n}\n\ngit.example.com {\n\trate_limit {\n"},
		"a comment":         {"# All sites\n\n" + app, "}\n\n# All sites"},
		"a snippet":         {"(log) {\n\tlog\n}\n\n" + app, "\t\tsession\n"},
		"other options":     {"# Options\n{ # of all\n\temail a@example.com\n}\n" + app, "\temail a@example.com"},
		"a brace":           {"{\n\temail a@example.com\n\tservers {\n\t\tstrict_sni_host on\n\t}\n}\n" + app, "{\n\trate_limit {\n\t\tsession\n\t}\n\temail"},
		"our options":       {"{\n\temail a@example.com\n\trate_limit {\n\t\tmax_keys 1000\n\t}\n}\n" + app, "\trate_limit {\n\t\tsession\n\t\tmax_keys"},
		"sessions":          {"{\n\trate_limit {\n\t\tsession {\n\t\t\tlifetime 30d\n\t\t}\n\t}\n}\n" + app, "\t\tsession {\n"},
		"Windows":           {strings.ReplaceAll("{\n\temail a@example.com\n}\n"+app, "\n", "\r\n"), "\t\tsession\r\n"},
		"imported options":  {"import options\n" + app, ""},
		"options of a line": {"{\n\timport options_inside\n}\n" + app, ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			write(t, filepath.Join(folder, "options"), "{\n\temail a@example.com\n}\n")
			write(t, filepath.Join(folder, "options_inside"), "rate_limit {\n\tmax_keys 1000\n}\n")
			file := write(t, filepath.Join(folder, "Caddyfile"), c.text)
			l := newLog(4)
			l.people("git.example.com", 30, []string{"/alice/tool"}, "/login") // a crowd knows Forgejo as well
			l.comeAsCrowd("git.example.com", proof.Sample(150, 300), anywhere, crowds["a forge"].pages...)
			log := write(t, filepath.Join(folder, "access.log"), l.String())
			printed, err := ran(t, file, false, "--log", log)
			if err != nil {
				t.Fatal(err)
			}
			if c.says == "" {
				wantSays(t, printed, "need session in the global option rate_limit, which can't be put into this file", "zone git_example_com_login {")
				return
			}
			if name != "our options" && name != "sessions" { // which the file has
				if _, err := adapted(t, printed); err != nil {
					t.Errorf("what is printed: %v", err)
				}
			}
			out, err := ran(t, file, false, "--log", log, "--write")
			if err != nil {
				t.Fatal(err)
			}
			wantSays(t, out, "Added 4 zones in shadow")
			text := read(t, file)
			wantSays(t, text, c.says, "zone git_example_com_crowd {")
			if strings.Count(text, "session") != 1+strings.Count(text, "no session") {
				t.Errorf("the option isn't there once in\n%s", text)
			}
			if read(t, copyOf(file, 1)) != c.text {
				t.Errorf("the copy isn't the old file")
			}
			if _, err := ran(t, file, false, "--enforce"); err != nil {
				t.Fatal(err)
			}
			if _, _, _, err := caddycmd.LoadConfig(file, "caddyfile"); err != nil {
				t.Error(err)
			}
		})
	}
}

func adapted(t *testing.T, text string) ([]byte, error) {
	t.Helper()
	config, _, _, err := caddycmd.LoadConfig(write(t, filepath.Join(t.TempDir(), "Caddyfile"), text), "caddyfile")
	return config, err
}
