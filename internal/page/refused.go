package page

import (
	_ "embed"
	"html/template"
	"math"
	"strconv"
	"strings"
	"sync"
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

// refusedTemplate includes the script and the style. They must have no comments: html/template
// removes those, but the hashes are of the whole files.
var refusedTemplate = template.Must(template.New("refused").Parse(
	strings.NewReplacer("STYLE", refusedCSS, "SCRIPT", refusedJS).Replace(refusedHTML)))

// Refused is the page of the refused requests of a site. It says when to return, counts down to
// that, and works without JavaScript. A browser that waited in a line in
// vain gets it with how many wait. It may be used from any number of goroutines, and must not be
// copied after first use.
type Refused struct {
	Site Site

	layouts sync.Map // layouts by their keys, each made on first use
}

// Append appends the page as HTML in UTF-8. It must be sent with the Content-Security-Policy
// [RefusedPolicy] and not be stored. retry is the waiting time; if it is 0 or less, the page says
// that waiting doesn't help.
func (r *Refused) Append(to []byte, texts *language.Texts, retry time.Duration, reference Reference) []byte {
	layout := r.layout(layoutKey{texts: texts, waits: retry > 0, referred: reference != Reference{}})
	to = append(to, layout[0]...)
	if retry > 0 {
		to = strconv.AppendInt(to, int64(math.Ceil(retry.Seconds())), 10)
		to = append(to, layout[1]...)
		to = append(to, texts.Wait(retry)...)
		to = append(to, layout[2]...)
	}
	if reference != (Reference{}) {
		to = append(to, template.HTMLEscapeString(reference.Short)...)
		to = append(to, layout[len(layout)-2]...)
		to = append(to, template.HTMLEscapeString(reference.Whole)...)
		to = append(to, layout[len(layout)-1]...)
	}
	return to
}

// AppendLine appends the page of a request that waited in a line in vain, as [Refused.Append] does.
// The browser must request the page again.
func (r *Refused) AppendLine(to []byte, texts *language.Texts, waiting int64) []byte {
	layout := r.layout(layoutKey{texts: texts, queued: true})
	return append(strconv.AppendInt(append(to, layout[0]...), waiting, 10), layout[1]...)
}

// layoutKey holds the parameters of a layout, besides the site, the time and the reference.
type layoutKey struct {
	texts                   *language.Texts
	waits, referred, queued bool
}

// gap marks the variable parts of a layout: the time in seconds and in words, and the two forms of
// the reference. It is a character that no text of a site contains.
const gap = "\ue000"

// layout returns a page's text between its gaps. html/template takes ten times as long as a refusal
// may, so each layout is made once.
func (r *Refused) layout(key layoutKey) []string {
	if made, ok := r.layouts.Load(key); ok {
		return made.([]string)
	}
	name, contact := strings.ReplaceAll(r.Site.Name, gap, ""), strings.ReplaceAll(r.Site.Contact, gap, "")
	data := struct {
		Texts         *language.Texts
		Title         string
		Site          Site
		Before, After string // around the time, in the sentence about returning, or the number that wait
		Seconds, Wait string
		Waiting       string // how many wait in the line
		Reference     Reference
	}{Texts: key.texts, Title: key.texts.Title, Site: Site{Name: name, Contact: contact}}
	data.Before, data.After, _ = strings.Cut(key.texts.Come, "%s")
	if key.queued {
		data.Title, data.Waiting = key.texts.Moment, gap
		data.Before, data.After, _ = strings.Cut(key.texts.Line, "%s")
	}
	if key.waits {
		data.Seconds, data.Wait = gap, gap
	}
	if key.referred {
		data.Reference = Reference{gap, gap}
	}
	var page strings.Builder
	if err := refusedTemplate.Execute(&page, data); err != nil {
		panic(err) // unreachable: the template has these fields
	}
	made, _ := r.layouts.LoadOrStore(key, strings.Split(page.String(), gap))
	return made.([]string)
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
