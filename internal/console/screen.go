package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// screen is what `top --watch` shows on a terminal. Totals, answers and pressed keys change it. It knows no
// terminal, so that it is tested without one.
type screen struct {
	width, height    int
	ask              wanted            // what to ask Caddy for
	shown            answer            // the last list, or explanation
	selected, scroll int               // the row of a key, the first line of an explanation
	samples          []operator.Totals // of the last minutes, the newest last
	lost             string            // why no totals come; "" if they do
	failed           string            // why there is no answer; "" if there is
	paused, help     bool
}

// wanted is what a screen asks Caddy for.
type wanted struct {
	operator.KeysQuery
	client string // to explain; "" to list keys
}

// answer is Caddy's answer.
type answer struct {
	wanted
	at        time.Time
	keys      []operator.Key
	refused   []operator.Refused
	explained operator.Explanation
	err       error
}

// line is a line of a screen.
type line struct {
	text  string
	style wording.Style
}

// chosen is the style of the selected row.
const chosen wording.Style = "7"

// screenKeys is how many keys a screen lists at most, unless --number says otherwise.
const screenKeys = 100

// Rates are of some totals, which come once a second.
const (
	ratePeriod = 5
	barPeriod  = 6 // of a bar
	mostBars   = 30
)

// count adds totals. They begin anew with a process of Caddy.
func (s *screen) count(t operator.Totals) {
	s.lost = ""
	if s.paused {
		return
	}
	if n := len(s.samples); n > 0 && (t.Allowed < s.samples[n-1].Allowed || t.Refused < s.samples[n-1].Refused) {
		s.samples = nil
	}
	s.samples = append(s.samples, t)
	s.samples = s.samples[max(len(s.samples)-barPeriod*mostBars-1, 0):]
}

// take shows an answer, unless it is to another question than the present one. The selection stays with its
// key, except in the first row.
func (s *screen) take(a answer) {
	if a.wanted != s.ask || s.paused && a.wanted == s.shown.wanted {
		return
	}
	if s.failed = ""; a.err != nil {
		s.failed = a.err.Error()
		return
	}
	if a.client != "" {
		a.keys, a.refused = s.shown.keys, s.shown.refused
	}
	if before := s.selectedKey(); s.selected > 0 {
		same := func(k operator.Key) bool {
			return k.Zone == before.Zone && k.Limit == before.Limit && k.Tier == before.Tier && k.Text == before.Text
		}
		if i := slices.IndexFunc(a.keys, same); i >= 0 {
			s.selected = i
		}
	}
	s.shown = a
	s.selected = min(s.selected, max(len(a.keys)-1, 0))
}

// selectedKey returns the key in the selected row, or the zero key.
func (s *screen) selectedKey() (k operator.Key) {
	if s.selected < len(s.shown.keys) {
		k = s.shown.keys[s.selected]
	}
	return k
}

// press handles a key, by its name in tcell, and reports whether it ends the screen.
func (s *screen) press(key string) (ends bool) {
	switch key {
	case "q", "Ctrl-C":
		return true
	case "Esc":
		ends = !s.help && s.ask.client == ""
		s.help, s.ask.client, s.failed = false, "", ""
	case "?":
		s.help = !s.help
	case "p":
		s.paused = !s.paused
	case "u":
		s.ask.By = operator.ByUsed
	case "r":
		s.ask.By = operator.ByRefused
	case "z", "Tab":
		zones := append([]string{""}, s.zones()...)
		s.ask.Zone = zones[(slices.Index(zones, s.ask.Zone)+1)%len(zones)]
	case "Up", "k":
		s.move(-1)
	case "Down", "j":
		s.move(1)
	case "Enter":
		if k := s.selectedKey(); k.Client != "" {
			s.ask.client, s.scroll = k.Client, 0
		} else if k.Tag != "" {
			s.ask.client, s.scroll = wordOf("", k.Tag), 0
		}
	}
	return ends
}

func (s *screen) move(rows int) {
	if s.ask.client != "" {
		s.scroll = max(s.scroll+rows, 0)
		return
	}
	s.selected = max(min(s.selected+rows, len(s.shown.keys)-1), 0)
}

// zones returns the names of the zones that run.
func (s *screen) zones() []string {
	if len(s.samples) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(s.samples[len(s.samples)-1].Zones))
}

// lines returns what the screen shows, line by line. All of it is printable.
func (s *screen) lines() []line {
	room := max(s.height-2, 0)
	var body []line
	switch {
	case s.help:
		body = plain(screenHelp)
	case s.ask.client != "":
		body = s.explanation(room)
	default:
		body = s.lists(room)
	}
	body = append(body, make([]line, room)...)[:room]
	all := slices.Concat([]line{s.head()}, body, []line{s.foot()})
	for i := range all {
		all[i].text = printable(all[i].text)
	}
	return all
}

const screenHelp = `j k ↓ ↑       select a row
Enter         explain its client
Esc           go back, or end
u r           order by used, by refused
z Tab         the next zone
p             pause, or go on
q Ctrl-C      end`

// plain returns the lines of a text.
func plain(text string) (lines []line) {
	for text := range strings.Lines(text) {
		lines = append(lines, line{text: strings.TrimSuffix(text, "\n")})
	}
	return lines
}

// head returns the rates of requests.
func (s *screen) head() line {
	if s.lost != "" {
		return line{"Connecting again: " + s.lost, red}
	}
	letIn := func(t operator.Totals) int64 { return t.Allowed }
	refused := func(t operator.Totals) int64 { return t.Refused }
	banned := func(t operator.Totals) int64 { return t.Banned }
	now := func(count func(operator.Totals) int64) string { return perSecond(s.rate(0, ratePeriod, count)) }
	text := func(bars int) string {
		return "Let in " + now(letIn) + s.bars(bars, letIn) + "   refused " + now(refused) + s.bars(bars, refused) + "   banned " + now(banned)
	}
	return line{text((s.width - len(text(0)) - 2) / 2), wording.Bold}
}

// rate returns the growth of a count per second, over a number of totals before the last ones; 0 if it isn't known.
func (s *screen) rate(last, over int, count func(operator.Totals) int64) float64 {
	end := len(s.samples) - 1 - last
	begin := max(end-over, 0)
	if end <= begin {
		return 0
	}
	grown := max(count(s.samples[end])-count(s.samples[begin]), 0)
	seconds := s.samples[end].At.Sub(s.samples[begin].At).Seconds()
	if seconds <= 0 { // the clock was set back
		return 0
	}
	return float64(grown) / seconds
}

// perSecond formats a rate.
func perSecond(rate float64) string {
	if rate < 9.95 {
		return fmt.Sprintf("%.1f/s", rate)
	}
	return wording.Number(int64(rate+0.5)) + "/s"
}

// levels are bars of a height.
var levels = []rune("▁▂▃▄▅▆▇█")

// bars returns a space and a number of bars for the last periods, the newest last; spaces for those that aren't
// known. The highest bar is full. Few bars say nothing, so they are left out.
func (s *screen) bars(n int, count func(operator.Totals) int64) string {
	if n = min(n, mostBars); n < mostBars/3 {
		return ""
	}
	rates := make([]float64, min(len(s.samples)/barPeriod, n))
	for i := range rates {
		rates[i] = s.rate((len(rates)-1-i)*barPeriod, barPeriod, count)
	}
	bars, most := strings.Repeat(" ", n-len(rates)+1), slices.Max(append(rates, 1e-9))
	for _, rate := range rates {
		bars += string(levels[int(rate/most*float64(len(levels)-1)+0.5)])
	}
	return bars
}

// foot returns what is listed, or what is wrong.
func (s *screen) foot() line {
	if s.failed != "" && s.lost == "" && s.ask.client == "" {
		return line{s.failed, red}
	}
	text := "? keys   q ends   by " + string(cmp.Or(s.ask.By, operator.ByUsed)) + "   zone " + cmp.Or(s.ask.Zone, "any")
	if s.ask.client != "" {
		text = "Esc goes back   q ends"
	}
	if s.paused {
		return line{"Paused: p goes on   " + text, yellow}
	}
	return line{text, ""}
}

// explanation returns the explanation of the selected client.
func (s *screen) explanation(room int) []line {
	if s.shown.client != s.ask.client {
		return []line{{s.failed, red}}
	}
	out := new(strings.Builder)
	(&session{out: out, look: wording.Look{Width: s.width}, now: s.shown.at}).showExplanation(s.shown.explained)
	lines := plain(out.String())
	s.scroll = min(s.scroll, max(len(lines)-room, 0))
	return lines[s.scroll:]
}

// lists returns the tables of zones, keys and refusals. Only that of keys is shown if there is little room.
func (s *screen) lists(room int) []line {
	var zones, refused []line
	if room >= 12 && s.width > 40 {
		zones = append(append([]line{{}}, block(s.width, room/4, zoneRateColumns, s.zoneRates())...), line{})
	}
	if room >= 20 && len(s.shown.refused) > 0 {
		refused = append([]line{{}}, block(s.width, room/4, refusedColumns(s.shown.at), s.shown.refused)...)
	}
	room -= len(zones) + len(refused)
	first := max(min(s.selected-room/2, len(s.shown.keys)-room+1), 0)
	keys := block(s.width, room, topColumns(s.shown.at), s.shown.keys[first:])
	for i := range keys[min(1, len(keys)):] {
		if k := s.shown.keys[first+i]; first+i == s.selected {
			keys[1+i].style = chosen
		} else if k.BlockedUntil != nil && !k.Shadow {
			keys[1+i].style = yellow
		}
	}
	if len(s.shown.keys) == 0 {
		keys = []line{{text: "Nobody has been counted."}}
	}
	keys = append(keys, make([]line, room)...)[:room]
	return slices.Concat(zones, keys, refused)
}

// block returns the head of a table in bold, and its first rows: together at most the lines that there is room
// for. Columns that the width has no room for are left out.
func block[T any](width, room int, columns []column[T], values []T) []line {
	var fitting []column[T]
	for _, c := range columns {
		if width >= leastWidth(c.head) {
			fitting = append(fitting, column[T]{c.head, func(v T) cell {
				part := c.cell(v)
				part.Whole = false // no row has more than one line
				return part
			}})
		}
	}
	out := new(strings.Builder)
	writeTable(out, wording.Look{Width: width}, fitting, values[:max(min(room-1, len(values)), 0)])
	lines := plain(out.String())
	if len(lines) > 0 {
		lines[0].style = wording.Bold
	}
	return lines
}

// leastWidth returns the width of a screen from which on it shows a column.
func leastWidth(head string) int {
	switch head {
	case "KEY", "USED", "REFUSED", "LAST":
		return 0
	case "ZONE", "OF", "FREE", "TIMES", "LETS IN", "REFUSES":
		return 50
	}
	return usualWidth + 1
}

// zoneRate is the rates of a zone, and its counts since Caddy started.
type zoneRate struct {
	name            string
	letIn, refusals float64 // per second
	operator.Counts
}

// zoneRates returns the rates of zones, those that refuse most first.
func (s *screen) zoneRates() (all []zoneRate) {
	for _, name := range s.zones() {
		now := s.samples[len(s.samples)-1].Zones[name]
		counts := func(t operator.Totals) operator.Counts {
			if before, ok := t.Zones[name]; ok {
				return before
			}
			return now // it didn't run yet
		}
		all = append(all, zoneRate{name: name, Counts: now,
			letIn:    s.rate(0, ratePeriod, func(t operator.Totals) int64 { return counts(t).Allowed }),
			refusals: s.rate(0, ratePeriod, func(t operator.Totals) int64 { return counts(t).Refused })})
	}
	slices.SortStableFunc(all, func(a, b zoneRate) int {
		return cmp.Or(cmp.Compare(b.refusals, a.refusals), cmp.Compare(b.letIn, a.letIn))
	})
	return all
}

var zoneRateColumns = []column[zoneRate]{
	{"ZONE", func(z zoneRate) cell { return text(z.name) }},
	{"LETS IN", func(z zoneRate) cell { return cell{Text: perSecond(z.letIn), Right: true} }},
	{"REFUSES", func(z zoneRate) cell { return cell{Text: perSecond(z.refusals), Right: true} }},
	{"LET IN", func(z zoneRate) cell { return figure(z.Allowed) }},
	{"REFUSED", func(z zoneRate) cell { return figure(z.Refused) }},
}
