package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/proof"
)

// Views returns what every page must be fit for: a phone and a desk, in one color scheme each, one with
// scripts and one without. With PROOF more of both schemes in nine widths, with scripts and without: all
// of them with a tenth of the whole depth.
func Views() []View {
	views := []View{{Width: 320, Height: 800}, {Width: 1280, Height: 800, Dark: true, NoScript: true}}
	for _, width := range []int{1280, 320, 600, 390, 900, 360, 768, 480, 1024} {
		for _, isDark := range []bool{false, true} {
			for _, noScript := range []bool{false, true} {
				if v := (View{Width: width, Height: 800, Dark: isDark, NoScript: noScript}); !slices.Contains(views, v) {
					views = append(views, v)
				}
			}
		}
	}
	return views[:min(proof.Times(2, 10*len(views)), len(views))]
}

// Inspect checks that the page that is shown is not wider than its view, and that axe finds
// nothing but by the rules that are accepted. It looks
// at views without scripts with PROOF only.
func (p *Page) Inspect(t *testing.T, axe Axe, v View, name string, accepted ...string) {
	t.Helper()
	if v.NoScript { // axe is one, and those of the page don't run any more
		p.Show(View{Width: v.Width, Height: v.Height, Dark: v.Dark, Scale: v.Scale})
		defer p.Show(v)
	}
	var wide struct{ Content, View int }
	p.Eval(`({Content: document.documentElement.scrollWidth, View: document.documentElement.clientWidth})`, &wide)
	if wide.Content > wide.View {
		t.Errorf("%s: %+v: the page is %d px wide", name, v, wide.Content)
	}
	if v.NoScript {
		axe = axe.InDepth()
	}
	for rule, found := range axe.Findings(p) {
		if !slices.Contains(accepted, rule) {
			t.Errorf("%s: %+v: axe finds %s: %s", name, v, rule, found)
		}
	}
}

// WantQuiet checks that the browser has complained of nothing, and has asked for nothing but
// what is below an address.
func (p *Page) WantQuiet(t *testing.T, address string) {
	t.Helper()
	for _, trouble := range p.Troubles() {
		t.Error(trouble)
	}
	for _, request := range p.Requests() {
		if !strings.HasPrefix(request, address) && request != "data:," && !strings.HasPrefix(request, "blob:") {
			t.Errorf("the page asks for %s", request)
		}
	}
}
