package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// Views returns the views that every page must support: a phone and a desktop, in one color scheme
// each, one with scripts and one without. With PROOF it adds more: both schemes in nine widths,
// with scripts and without; all of them with a tenth of the whole depth.
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

// Inspect checks that the current page is not wider than its view, and that axe has no findings
// except for the accepted rules. It examines views without scripts only with PROOF.
func (p *Page) Inspect(t *testing.T, axe Axe, v View, name string, accepted ...string) {
	t.Helper()
	if v.NoScript { // axe needs scripts; a loaded page's own no longer start
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

// WantQuiet checks that the browser has logged no problems, and has requested nothing outside of an
// address.
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
