package challenge

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/page"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// Page is a page on which a browser solves a puzzle, or a person a widget. It posts a form with the result.
//
// The fields of the form are "target", and "puzzle" with "solution", or those of the widget.
type Page struct {
	// Texts are the texts of the page, in its language.
	Texts *language.Texts

	// Site describes the site.
	Site page.Site

	// Action is the path to which the form is posted.
	Action string

	// Target is where the person continues. It is posted unchanged: check the posted value with the function
	// Target.
	Target string

	// Puzzle is the puzzle for the browser, if there is no widget.
	Puzzle *Puzzle

	// Wait is submitted instead by a browser without JavaScript, with GET, as "wait", with the target as
	// "target". nil if that isn't allowed.
	Wait *Wait

	// Widget is the widget for the person, instead of a puzzle.
	Widget *Widget

	// Retry is how long the person can wait instead. 0 or less: waiting doesn't help.
	Retry time.Duration

	// Notice says why the page is shown again, in the page's language. Empty the first time.
	Notice string

	// Link replaces the challenge: where the person continues, in the whole window, after reading the notice.
	Link string

	// Reference is empty if nothing was refused.
	Reference page.Reference
}

// Widget is a service's script that checks for a person.
type Widget struct {
	Script  string   // its address
	Class   string   // the class of its element
	SiteKey string   // the service's name for the site
	Action  string   // the purpose, for the service; may be empty
	Sources []string // the sources that the page loads from, as in a CSP
}

// Render returns the page as HTML in UTF-8. Send it with the Content-Security-Policy of [Page.Policy], and not for
// storage in caches.
func (p Page) Render() []byte {
	data := struct {
		Page
		Style  template.CSS
		Script template.JS
		Come   string // when to come back; "" if waiting doesn't help
		Waits  string // that the page goes on by itself, and
		Next   string // where; both "" if it doesn't
	}{Page: p, Style: template.CSS(pageCSS), Script: template.JS(pageJS), Come: p.Texts.ComeBack(p.Retry)} // #nosec G203 -- our own files
	if p.Wait != nil {
		data.Waits = fmt.Sprintf(p.Texts.Waits, p.Texts.Wait(time.Duration(p.Wait.Seconds)*time.Second))
		data.Next = p.Action + "?" + url.Values{"wait": {p.Wait.Token}, "target": {p.Target}}.Encode()
	}
	var html bytes.Buffer
	if err := pageTemplate.Execute(&html, data); err != nil {
		panic(err) // unreachable: the template has these fields
	}
	return html.Bytes()
}

// The policy allows the page's script and style by their hashes: they never change, and a nonce would have to be new
// for every answer.
var (
	scriptSource = page.Source(pageJS)
	styleSource  = page.Source(pageCSS)
)

// Policy returns the Content-Security-Policy of the page: its own script and style, its icon, the script's workers, a
// form to this site, no framing, and nothing else except the sources of a widget. A page with a link may be framed.
func (p Page) Policy() string {
	widget := ""
	if p.Widget != nil {
		widget = " " + strings.Join(p.Widget.Sources, " ")
	}
	directives := []string{
		"default-src 'none'",
		"script-src " + scriptSource + widget,
		"style-src " + styleSource + widget,
		"img-src data:" + widget,
		"form-action 'self'",
		"base-uri 'none'",
	}
	if p.Link == "" {
		directives = append(directives, "frame-ancestors 'none'")
	}
	if widget == "" {
		directives = append(directives, "worker-src blob:")
	} else {
		directives = append(directives, "frame-src"+widget, "connect-src"+widget)
	}
	return strings.Join(directives, "; ")
}
