package replay

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	t := &textWriter{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
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
	return t.Flush()
}

func (t *textWriter) suggestions(p *Report) {
	if p.Suggest == nil {
		return
	}
	if len(p.Suggest) == 0 {
		t.line("\nNo limit is suggested: it takes %d clients that weren't mostly answered with 401, 403 or 404.", fewClients)
	} else {
		t.line("\nSuggested limits")
	}
	for _, s := range p.Suggest {
		now := ""
		if s.Now > 0 {
			now = " instead of " + wording.Number(s.Now)
		}
		t.line("\n  Zone %s, limit %s: %s/%s%s. %s", s.Zone, s.Limit, wording.Number(s.Amount), s.Window, now, s.Reason)
		if s.Lines != "" {
			fmt.Fprintln(t)
			for line := range strings.Lines(s.Lines) {
				t.line("    %s", strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    "))
			}
		}
	}
	for _, s := range p.Without {
		t.line("\n  Zone %s, limit %s: no suggestion. %s", s.Zone, s.Limit, s.Reason)
	}
}

type textWriter struct{ *tabwriter.Writer }

// line writes a line. All output about a log passes through it.
func (t *textWriter) line(format string, args ...any) {
	fmt.Fprintln(t, wording.Printable(fmt.Sprintf(format, args...), "\t\n"))
}

func (t *textWriter) summary(p *Report) {
	if p.Requests == 0 {
		t.line("No request was replayed.")
	} else {
		t.outcomes(p)
	}
	if p.Outside > 0 {
		t.line("  left out: not within --from and --to\t%s", wording.Number(p.Outside))
	}
	if p.Other > 0 {
		t.line("  left out: other hosts than --site\t%s", wording.Number(p.Other))
	}
	if a := p.Own; a != nil {
		t.line("\nThe Caddy that wrote the log refused %s of them: %s of all verdicts are the same.", wording.Number(a.Log), percent(int64(a.Share*1e9), 1e9))
		t.line("Refused by the log only: %s, by the replay only: %s.", wording.Number(a.OnlyLog), wording.Number(a.OnlyReplay))
	}
}

// outcomes writes the outcomes of the requests.
func (t *textWriter) outcomes(p *Report) {
	t.line("%s from %s to %s", wording.Counted(p.Requests, "request"), clockText(p.From), p.To.Local().Format("2006-01-02 15:04:05 MST"))
	t.row("would be refused", p.Refused, p.Requests)
	t.row("within their limits", p.Passed, p.Requests)
	if p.Would > 0 || slices.ContainsFunc(p.Limits, func(l LimitReport) bool { return l.Shadow }) {
		t.row("of these, shadow limits would refuse", p.Would, p.Requests)
	}
	t.row("no limit applies", p.Free, p.Requests)
	if p.Denied > 0 {
		t.row("denied for their API key or tier", p.Denied, p.Requests)
	}
	if p.Skipped > 0 {
		t.row("could not be decided about", p.Skipped, p.Requests)
	}
}

func (t *textWriter) row(what string, n, all int64) {
	t.line("  %s\t%s\t%s", what, wording.Number(n), percent(n, all))
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
		t.line("  %s from %s; %s (%s) from %s would be refused", wording.Counted(l.Requests, "request"), wording.Counted(l.Clients, "client"),
			wording.Number(l.Refused), percent(l.Refused, l.Requests), wording.Counted(l.Hit, "client"))
	} else {
		t.line("  %s from %s would be refused", wording.Counted(l.Refused, "request"), wording.Counted(l.Hit, "client"))
	}
	if l.First != nil {
		t.line("  First refusal at %s. Status of the refused requests in the log: %s", clockText(l.First), statusText(l.Statuses))
	}
	t.top(l)
	t.peaks(l)
}

func (t *textWriter) top(l *LimitReport) {
	if len(l.Top) == 0 {
		return
	}
	t.line("\n  client\trefused\trequests\tpeak\tfirst refusal\tstatus\tuser agent")
	for _, c := range l.Top {
		t.line("  %s\t%s\t%s\t%s\t%s\t%s\t%s", oneCell(c.Client), wording.Number(c.Refused), wording.Number(c.Requests), wording.Number(c.Peak),
			clockText(&c.First), statusText(c.Statuses), oneCell(strings.Join(c.Agents[:min(len(c.Agents), 1)], "")))
	}
	if more := l.Hit - int64(len(l.Top)); more > 0 {
		t.line("  and %s more", wording.Number(more))
	}
}

func (t *textWriter) peaks(l *LimitReport) {
	if l.Peaks == nil {
		return
	}
	t.line("\n  Peak of a client within one window: median %s, 99 %% of clients at most %s, 99.9 %% at most %s, highest %s",
		wording.Number(l.Peaks.P50), wording.Number(l.Peaks.P99), wording.Number(l.Peaks.P999), wording.Number(l.Peaks.Max))
	t.line("\n  at a limit of\tclients refused\trequests refused")
	for _, a := range l.Amounts {
		mark := ""
		if a.Own {
			mark = "\tas configured"
		}
		t.line("  %s\t%s\t%s%s", wording.Number(a.Amount), wording.Number(a.Clients), wording.Number(a.Refused), mark)
	}
	if l.Inexact {
		t.line("  Too many clients were active to count all refusals: these are the least that there would be.")
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

// maxCell is the most bytes of a text in a table.
const maxCell = 50

// oneCell returns a text that stays within its cell of a table.
func oneCell(text string) string {
	text = strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(text)
	if len(text) > maxCell {
		text = strings.ToValidUTF8(text[:maxCell], "") + "…"
	}
	return text
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
