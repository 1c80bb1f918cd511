package challenge

import (
	"net/url"
	"strings"
	"testing"
)

func TestTarget(t *testing.T) {
	for _, good := range []string{
		"/", "/a", "/a/b/?c=d&e=%2F%2Fexample.org", "/a//b", "/?", "/a%20b", "/%C3%BC", "/a:b@c", "/.well-known/x",
		"/100%25", "/a?next=https://example.org/%0A", "/~a;b=c,d!'()*", "/a/../b",
	} {
		if got := Target(good); got != good {
			t.Errorf("Target(%q) = %q", good, got)
		}
	}
	for _, bad := range []string{
		"", "a", "?a", "#a", "//", "//example.org", "///example.org", "////example.org/", "https://example.org/", "https:example.org",
		"javascript:alert(1)", "data:text/html,x", `\\example.org`, `/\example.org`, `\/example.org`, `/a\b`,
		"/\t/example.org", "/\n/example.org", "/\r\nSet-Cookie: a=b", "\t//example.org", " //example.org", "/ /example.org", "/a b", "/\x00", "/\x7f",
		"/%2f/example.org", "/%2Fexample.org", "%2f%2fexample.org", "/%5cexample.org", "/%5Cexample.org", "/%255cexample.org", "/%252fexample.org",
		"/%09/example.org", "/%0d%0aSet-Cookie:%20a=b", "/%00", "/.//example.org", "/..//example.org", "/a/..//example.org",
		"/%2e//example.org", "/%2e%2e//example.org", "/a/%2e%2e/%2fexample.org", "/%252e%252e//example.org",
		"/%5c%", "/%255c%25", "/ü", "/／example.org", "/a#b", "/%", "/%zz", "/a?b#c", "http:///example.org",
		"/" + strings.Repeat("%25", 1) + strings.Repeat("25", maxDecodings) + "5c", "/" + strings.Repeat("a", MaxTarget),
	} {
		if got := Target(bad); got != "/" {
			t.Errorf("Target(%q) = %q", bad, got)
		}
	}
}

// A target that is resolved as browsers do, and decoded several times, stays on its site.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{"/a?b=c", "//example.org", `/\example.org`, "/%2f/example.org", "/a/..//example.org", "/%25252f", "https://example.org"} {
		f.Add(seed)
	}
	site := &url.URL{Scheme: "https", Host: "example.com", Path: "/where"}
	f.Fuzz(func(t *testing.T, text string) {
		target := Target(text)
		if target != "/" && target != text {
			t.Fatalf("Target(%q) = %q", text, target)
		}
		for range 4 {
			for _, read := range []string{target, strings.ReplaceAll(target, `\`, "/"), strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(target)} {
				u, err := url.Parse(read)
				if err != nil {
					continue // and nobody goes there
				}
				if at := site.ResolveReference(u); at.Host != site.Host || at.Scheme != site.Scheme || at.User != nil {
					t.Fatalf("%q leads to %s", text, at)
				}
			}
			path, _, _ := strings.Cut(target, "?")
			target = unescaped(path)
		}
	})
}
