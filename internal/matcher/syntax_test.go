package matcher

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// The comment of a method UnmarshalCaddyfile shows the lines that it reads. (A test of the reference holds it to
// the comments.)
func TestSyntaxInComments(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`Syntax:\n//\n((?://\t.*\n)+)func \(\w+ \*\w+\) UnmarshalCaddyfile`)
	lines := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, comment := range shown.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(comment[1]) {
				line = strings.Trim(strings.TrimPrefix(line, "//"), "\t {}\n")
				if line != "" && !strings.Contains(string(text), `grammar.Line("`+line+`"`) {
					t.Errorf("%s shows %q, which no grammar of the file reads", file, line)
				}
				lines++
			}
		}
	}
	if lines < 5 {
		t.Errorf("found %d lines of syntax, expected one of each matcher", lines)
	}
}

// An error about the words of a matcher shows its syntax, also where its name isn't written.
func TestMistakesInMatchersShowTheSyntax(t *testing.T) {
	const (
		ofEndpoint = "; the syntax is endpoint [<methods...>] <paths...> [<key>=<value>...]"
		ofVerified = "; the syntax is verified_bot <names...> { … }"
		ofSigned   = "; the syntax is signed_bot <file> [<names...>]"
		ofCountry  = "; the syntax is country <codes...>"
	)
	for text, want := range map[string]string{
		"endpoint":                    "endpoint: <paths...> is missing" + ofEndpoint,
		"endpoint POST":               "endpoint: <paths...> is missing" + ofEndpoint,
		"endpoint POST login":         `endpoint: got "login", where a path is expected` + ofEndpoint,
		"endpoint /login POST":        `endpoint: got "POST" behind the path: a condition on the query has a value, such as mode=heavy or q=*` + ofEndpoint,
		"endpoint /a b=1 b=2":         `there are two conditions on "b", "1" and "2"`,
		"endpoint /a {\nx\n}":         "endpoint: it has no block" + ofEndpoint,
		"endpoint /a\nendpoint /b":    "endpoint is given twice in one set of matchers",
		"endpoint /a?b=c":             "conditions on the query follow the path",
		"verified_bot":                "verified_bot: <names...> is missing" + ofVerified,
		"verified_bot google {\nx\n}": `verified_bot: unrecognized option "x"`,
		"signed_bot":                  "signed_bot: <file> is missing" + ofSigned,
		"signed_bot f {\nx\n}":        "signed_bot: it has no block" + ofSigned,
		"country":                     "country: <codes...> is missing" + ofCountry,
		"country DE {\nx\n}":          "country: it has no block" + ofCountry,
		"country de":                  `country: got "de"`,
		"asn":                         "asn: <numbers...> is missing; the syntax is asn <numbers...>",
	} {
		matchers := map[string]caddyfile.Unmarshaler{"endpoint": new(Endpoint), "verified_bot": new(VerifiedBot), "signed_bot": new(SignedBot), "country": new(Country), "asn": new(ASN)}
		name := strings.Fields(text)[0]
		if err := matchers[name].UnmarshalCaddyfile(caddyfile.NewTestDispenser(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %s in it", text, err, want)
		}
		if words, ok := strings.CutPrefix(text, "endpoint "); ok && !strings.Contains(text, "\n") {
			d := caddyfile.NewTestDispenser("match " + words)
			d.Next()
			if _, err := UnmarshalEndpoint(d); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("match %s: error is %v, want %s in it", words, err, want)
			}
		}
	}
}
