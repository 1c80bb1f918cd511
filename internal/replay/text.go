package replay

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// WriteText writes the report, with tables of a look.
func (r *Report) WriteText(w io.Writer, look wording.Look) error {
	out := bufio.NewWriter(w)
	t := &textWriter{out, look}
	t.summary(r)
	zone := ""
	for i := range r.Limits {
		l := &r.Limits[i]
		if l.Zone != zone || i == 0 {
			zone = l.Zone
			t.line("\nZone %s", zone)
		}
		t.limit(l)
	}
	t.suggestions(r)
	t.notes(r)
	return out.Flush()
}

func (t *textWriter) suggestions(p *Report) {
	if p.Suggest == nil {
		return
	}
	if len(p.Suggest) == 0 {
		t.line("\nNo limit is suggested: it takes %d clients that weren't mostly answered with 400, 401, 403 or 404.",
			fewClients)
	} else {
		t.line("\nSuggested limits")
	}
	for _, s := range p.Suggest {
		now := ""
		if s.Now > 0 && s.Now != s.Amount {
			now = " instead of " + wording.Number(s.Now)
		}
		t.line("\n  Zone %s, limit %s: %s/%s%s. %s", s.Zone, s.Limit, wording.Number(s.Amount), s.Window, now, s.Reason)
	}
	for _, s := range p.Without {
		t.line("\n  Zone %s, limit %s: no suggestion. %s", s.Zone, s.Limit, s.Reason)
	}
}

type textWriter struct {
	io.Writer
	look wording.Look
}

// line writes a line. All output about a log passes through it or through table.
func (t *textWriter) line(format string, args ...any) {
	fmt.Fprintln(t, wording.Printable(fmt.Sprintf(format, args...), "\n"))
}

// table writes a table with an indent.
func (t *textWriter) table(heads []string, rows [][]wording.Cell) {
	lines := new(strings.Builder)
	wording.WriteTable(lines, t.look, heads, rows)
	for line := range strings.Lines(lines.String()) {
		fmt.Fprint(t, "  ", line)
	}
}

func (t *textWriter) summary(p *Report) {
	var rows [][]wording.Cell
	if p.Requests == 0 {
		t.line("No request was replayed.")
	} else {
		t.line("%s from %s to %s", wording.Counted(p.Requests, "request"), clockText(p.From),
			p.To.Local().Format("2006-01-02 15:04:05 MST"))
		rows = p.outcomes()
	}
	if p.Outside > 0 {
		rows = append(rows, outcome("left out: not within --from and --to", p.Outside, 0))
	}
	if p.Other > 0 {
		rows = append(rows, outcome("left out: other hosts than --site", p.Other, 0))
	}
	t.table(make([]string, 3), rows)
	if a := p.Own; a != nil {
		t.line("\nThe Caddy that wrote the log refused %s of them: %s of all verdicts are the same.",
			wording.Number(a.Log), percent(int64(a.Share*1e9), 1e9))
		t.line("Refused by the log only: %s, by the replay only: %s.", wording.Number(a.OnlyLog),
			wording.Number(a.OnlyReplay))
	}
}

// outcomes returns rows with the outcomes of the requests.
func (r *Report) outcomes() [][]wording.Cell {
	rows := [][]wording.Cell{outcome("would be refused", r.Refused, r.Requests),
		outcome("within their limits", r.Passed, r.Requests)}
	if r.Would > 0 || slices.ContainsFunc(r.Limits, func(l LimitReport) bool { return l.Shadow }) {
		rows = append(rows, outcome("of these, shadow limits would refuse", r.Would, r.Requests))
	}
	rows = append(rows, outcome("no limit applies", r.Free, r.Requests))
	if r.Denied > 0 {
		rows = append(rows, outcome("denied for their API key or tier", r.Denied, r.Requests))
	}
	if r.Skipped > 0 {
		rows = append(rows, outcome("could not be decided about", r.Skipped, r.Requests))
	}
	return rows
}

// outcome returns a row with a number of requests, and their share unless all is 0.
func outcome(what string, n, all int64) []wording.Cell {
	share := wording.Cell{Right: true}
	if all > 0 {
		share.Text = percent(n, all)
	}
	return []wording.Cell{{Text: what}, wording.Figure(n), share}
}

func (t *textWriter) limit(l *LimitReport) {
	name := "Limit " + l.Limit
	if l.Shadow {
		name += " (shadow, refuses nothing)"
	}
	if l.Text != "" {
		name += ": " + l.Text
	}
	if l.Per != "" {
		name += ", per " + l.Per
	}
	t.line("\n  %s", name)
	if l.Requests > 0 {
		t.line("  %s from %s; %s (%s) from %s would be refused", wording.Counted(l.Requests, "request"),
			wording.Counted(l.Clients, "client"),
			wording.Number(l.Refused), percent(l.Refused, l.Requests), wording.Counted(l.Hit, "client"))
	} else {
		t.line("  %s from %s would be refused", wording.Counted(l.Refused, "request"), wording.Counted(l.Hit, "client"))
	}
	if l.First != nil {
		t.line("  First refusal at %s. Status of the refused requests in the log: %s", clockText(l.First),
			statusText(l.Statuses))
	}
	t.top(l)
	t.peaks(l)
}

func (t *textWriter) top(l *LimitReport) {
	if len(l.Top) == 0 {
		return
	}
	t.line("")
	var rows [][]wording.Cell
	for _, c := range l.Top {
		rows = append(rows, []wording.Cell{{Text: c.Client}, wording.Figure(c.Refused),
			wording.Figure(c.Requests), wording.Figure(c.Peak),
			{Text: clockText(&c.First)}, {Text: statusText(c.Statuses)},
			{Text: strings.Join(c.Agents[:min(len(c.Agents), 1)], "")}})
	}
	t.table([]string{"client", "refused", "requests", "peak", "first refusal", "status", "user agent"}, rows)
	if more := l.Hit - int64(len(l.Top)); more > 0 {
		t.line("  and %s more", wording.Number(more))
	}
}

func (t *textWriter) peaks(l *LimitReport) {
	if l.Peaks == nil {
		return
	}
	t.line("\n  Peak of a client within one window: median %s, 99 %% of clients at most %s, 99.9 %% at most %s, highest %s",
		wording.Number(l.Peaks.P50), wording.Number(l.Peaks.P99), wording.Number(l.Peaks.P999),
		wording.Number(l.Peaks.Max))
	t.line("")
	var rows [][]wording.Cell
	for _, a := range l.Amounts {
		rows = append(rows, []wording.Cell{wording.Figure(a.Amount), wording.Figure(a.Clients),
			{Text: map[bool]string{true: "as configured"}[a.Own]}})
	}
	t.table([]string{"at a limit of", "clients refused", ""}, rows)
	if l.Inexact {
		t.line("  Too many clients were active to remember all of their slots, so peaks may be too high.")
	}
}

func (t *textWriter) notes(p *Report) {
	if len(p.Coverage) > 0 {
		t.line("\nWhat this log can't tell")
		for _, says := range p.Coverage {
			t.line("  %s", says)
		}
	}
	for _, bad := range p.Log.Quoted {
		if bad.Text != "" {
			bad.Text = ": " + bad.Text
		}
		t.line("  %s, line %d: %s%s", bad.File, bad.Line, bad.Error, bad.Text)
	}
}

// statusText lists answers with their shares: 401 (90 %), 200.
func statusText(list []Status) string {
	all := int64(0)
	for _, s := range list {
		all += s.Requests
	}
	var texts []string
	for _, s := range list[:min(len(list), 3)] {
		status := strconv.Itoa(s.Status)
		if s.Status == 0 {
			status = "none"
		}
		if len(list) > 1 {
			status += " (" + percent(s.Requests, all) + ")"
		}
		texts = append(texts, status)
	}
	return strings.Join(texts, ", ")
}

func clockText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
