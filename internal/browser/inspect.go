package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/proof"
)

// Views returns what every page must be fit for: a phone and a desk, in one color scheme each, one with
// scripts and one without. With PROOF it is both schemes in nine widths, with scripts and without.
func Views() []View {
	if !proof.IsOn() {
		return []View{{Width: 320, Height: 800}, {Width: 1280, Height: 800, Dark: true, NoScript: true}}
	}
	var views []View
	for _, width := range []int{320, 360, 390, 480, 600, 768, 900, 1024, 1280} {
		for _, isDark := range []bool{false, true} {
			views = append(views, View{Width: width, Height: 800, Dark: isDark}, View{Width: width, Height: 800, Dark: isDark, NoScript: true})
		}
	}
	return views
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
