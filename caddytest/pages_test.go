package caddytest

import (
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	darkScheme = regexp.MustCompile(`(?s)@media \(prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}`)
	colorName  = regexp.MustCompile(`--([\w-]+):\s*#([0-9a-f]{6}|[0-9a-f]{3})\b`)
)

// Text on our pages has the contrast that WCAG 2.2 asks for at level AA, 4.5 to 1, in
// both color schemes.
func TestContrastOfPages(t *testing.T) {
	for file, pairs := range map[string]string{
		"../examples/site/index.html":    "ink/paper soft/paper accent/paper ink/card soft/card accent/card card/accent go/go-soft stop/stop-soft",
		"../examples/site/429.html":      "ink/paper soft/paper stop/paper",
		"../identity/challenge/page.css": "ink/card soft/card card/mark ink/paper warn/paper",
	} {
		style, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dark := darkScheme.FindSubmatch(style)
		if dark == nil {
			t.Fatalf("%s has no dark scheme", file)
		}
		light, _, _ := strings.Cut(string(style), "prefers-color-scheme")
		for scheme, colors := range map[string]map[string]float64{"light": luminances(t, light), "dark": luminances(t, string(dark[1]))} {
			for pair := range strings.FieldsSeq(pairs) {
				text, ground, _ := strings.Cut(pair, "/")
				a, known := colors[text]
				b, too := colors[ground]
				if !known || !too {
					t.Errorf("%s: the %s scheme lacks %s", file, scheme, pair)
				} else if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 {
					t.Errorf("%s, %s: %s has a contrast of %.2f", file, scheme, pair, ratio)
				}
			}
		}
	}
}

// luminances returns the relative luminance of each color that a style names, as
// https://www.w3.org/TR/WCAG22/#dfn-relative-luminance has it.
func luminances(t *testing.T, style string) map[string]float64 {
	colors := make(map[string]float64)
	for _, found := range colorName.FindAllStringSubmatch(style, -1) {
		digits := found[2]
		if len(digits) == 3 {
			digits = string([]byte{digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]})
		}
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			c := float64(n) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			colors[found[1]] += weight * c
		}
	}
	return colors
}

// No page of ours has a browser ask for an icon that isn't there.
func TestPagesNameTheirIcon(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../examples/site/index.html", "../examples/site/429.html", "../identity/challenge/page.html"} {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), `<link rel="icon" href="data:`) {
			t.Errorf("%s has a browser ask for /favicon.ico", file)
		}
	}
}

// The example's page for refused requests says in words how long to wait, before any
// script runs.
func TestPageSaysHowLongToWait(t *testing.T) {
	t.Parallel()
	binary, err := caddyBinary()
	if err != nil {
		t.Fatal(err)
	}
	url := startExample(t, binary, "Caddyfile", "")
	for range 20 {
		r, err := http.NewRequest(http.MethodPost, url+"/login", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := do(newClient(), r, "Accept: text/html")
		if err != nil {
			t.Fatal(err)
		}
		if a.status != http.StatusTooManyRequests {
			continue
		}
		seconds := a.header.Get("Retry-After")
		if want := `data-seconds="` + seconds + `">` + seconds + ` second`; !strings.Contains(a.body, want) {
			t.Errorf("the page lacks %q: %s", want, a.body)
		}
		return
	}
	t.Error("20 requests passed a limit of 5")
}
