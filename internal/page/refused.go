package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/language"
)

var (
	//go:embed refused.html
	refusedHTML string
	//go:embed refused.css
	refusedCSS string
	//go:embed refused.js
	refusedJS string
)

// refusedTemplate has the script and the style in its text, so that they aren't escaped each
// time. They must have no comments: html/template takes those out, and the hashes are of the
// whole files.
var refusedTemplate = template.Must(template.New("refused").Parse(
	strings.NewReplacer("STYLE", refusedCSS, "SCRIPT", refusedJS).Replace(refusedHTML)))

// Refused is the page of a refused request: it says when to come back, counts down to that, and
// can be read without JavaScript.
type Refused struct {
	Texts *language.Texts
	Site  Site

	// Retry is how long to wait. 0 or less: waiting doesn't help.
	Retry time.Duration

	// Reference is what a person can give to whoever runs the site. It may be empty.
	Reference string
}

// Render writes the page as HTML in UTF-8, which is to be sent with the Content-Security-Policy
// [RefusedPolicy] and not to be stored.
func (p Refused) Render(w io.Writer) error {
	before, after, _ := strings.Cut(p.Texts.Come, "%s")
	data := struct {
		Refused
		Before, Wait, After string // when to come back; Wait is "" if waiting doesn't help
		Seconds             int64
	}{p, before, p.Texts.Wait(p.Retry), after, int64(math.Ceil(p.Retry.Seconds()))}
	if err := refusedTemplate.Execute(w, data); err != nil {
		return fmt.Errorf("page: refused: %w", err)
	}
	return nil
}

// RefusedPolicy is the Content-Security-Policy of [Refused]: its own script, style and icon, no
// frame around it, and nothing else.
var RefusedPolicy = policy(
	"default-src 'none'",
	"script-src "+Source(refusedJS),
	"style-src "+Source(refusedCSS),
	"img-src data:",
	"form-action 'none'",
	"base-uri 'none'",
	"frame-ancestors 'none'",
)
