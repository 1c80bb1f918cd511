package replay

import (
	"bytes"
	"cmp"
	_ "embed" // for the page
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/page"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

//go:embed page/report.html
var pageText string

//go:embed page/style.css
var pageStyle string

//go:embed page/script.js
var pageScript string

var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report").Funcs(template.FuncMap{
		"number": wording.Number, "percent": percent, "clock": clockText, "statuses": statusText,
		"zone":     func(t *time.Time) string { return t.Local().Format("MST") },
		"clock2":   func(t time.Time) string { return clockText(&t) },
		"plain":    func(text string) string { return wording.Printable(text, "") },
		"len64":    func(list []Client) int64 { return int64(len(list)) },
		"last":     func(list []movedTo) int { return len(list) - 1 },
		"steps":    func(m *movable) (string, error) { text, err := json.Marshal(m.Steps); return string(text), err },
		"sentence": sentence, "timeline": plotTimeline, "peaks": plotPeaks,
	}).Parse(strings.NewReplacer("STYLE", pageStyle, "SCRIPT", pageScript).Replace(pageText)))
})

// data is the data of the template.
type data struct {
	*Report
	Policy   string // allows only the page's style and script
	Headline string
}

// WriteHTML writes the report as one page without external resources. Its script only moves the lines of
// limits.
func (r *Report) WriteHTML(w io.Writer) error {
	out := new(bytes.Buffer)
	err := pageTemplate().Execute(out, data{
		Report: r, Headline: r.headline(),
		Policy: "default-src 'none'; img-src data:; style-src " + page.Source(pageStyle) + "; script-src " +
			page.Source(pageScript) + "; base-uri 'none'; form-action 'none'",
	})
	if err != nil {
		return err
	}
	_, err = out.WriteTo(w)
	return err
}

// headline returns the main result.
func (r *Report) headline() string {
	if r.Requests == 0 {
		return "No request was replayed"
	}
	enforced, shadow := r.effectOf(false, r.Refused), r.effectOf(true, r.Would)
	switch {
	case shadow == "":
		return "These limits would have refused " + cmp.Or(enforced, nobody)
	case enforced == "":
		return "The limits in shadow would have refused " + shadow
	}
	return fmt.Sprintf("These limits would have refused %s; those in shadow, of the rest, %s", enforced, shadow)
}

const nobody = "nobody"

// effectOf describes the requests that limits in shadow, or the others, refuse; "" if there are no such limits.
func (r *Report) effectOf(inShadow bool, refused int64) string {
	limits, clients, refusing := 0, int64(0), 0
	for _, l := range r.Limits {
		if l.Shadow != inShadow {
			continue
		}
		limits++
		if clients = max(clients, l.Hit); l.Refused > 0 {
			refusing++
		}
	}
	switch {
	case limits == 0 && refused == 0:
		return ""
	case refused == 0:
		return nobody
	}
	text := fmt.Sprintf("%s of all requests, from %s", percent(refused, r.Requests), wording.Counted(clients, "client"))
	if refusing > 1 {
		text += " or more"
	}
	return text
}

// sentence summarizes the effect of a limit.
func sentence(l LimitReport) string {
	if l.Requests == 0 {
		return fmt.Sprintf("It would have refused %s from %s.", wording.Counted(l.Refused, "request"),
			wording.Counted(l.Hit, "client"))
	}
	text := fmt.Sprintf("%s from %s. ", wording.Counted(l.Requests, "request"), wording.Counted(l.Clients, "client"))
	if l.Refused == 0 {
		return text + "It would have refused none."
	}
	return text + fmt.Sprintf("It would have refused %s (%s) from %s, first at %s. Their status in the log: %s.",
		wording.Number(l.Refused), percent(l.Refused, l.Requests), wording.Counted(l.Hit, "client"), clockText(l.First),
		statusText(l.Statuses))
}

// Same returns the number of equal verdicts.
func (a *Agreement) Same() int64 { return a.Requests - a.OnlyLog - a.OnlyReplay }
