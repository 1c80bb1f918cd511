package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
	"github.com/caddy-tally/caddy-tally/internal/testing/terminal"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// hostile are texts that clients could choose to reach an operator's terminal.
var hostile = []string{
	"\x1b]0;title\x07\x1b[2J\x1b[31m\x1b[99;1H\u202e\u009b31m\x00\x7f\u2028\xff",
	strings.Repeat("幅", 1000), strings.Repeat("e\u0301\u200d", 500), "a\r\nb\tc\b\b\b",
}

// sampled returns a screen of a service's answers and a minute of its requests: 12 let in, 3 refused and one
// banned in each second.
func sampled(s operator.Service, width, height int) *screen {
	m := &screen{width: width, height: height, ask: wanted{KeysQuery: operator.KeysQuery{N: screenKeys, By: operator.ByUsed}}}
	m.take(ask(s, m.ask))
	for i := range int64(60) {
		of := func(n int64) operator.Counts { return operator.Counts{Allowed: 12 * n, Refused: 3 * n, Banned: n} }
		m.count(operator.Totals{At: noon.Add(time.Duration(i) * time.Second), Counts: of(1000 + i), Zones: map[string]operator.Counts{"login": of(i), "api": {}}})
	}
	return m
}

// ask answers a question of a screen.
func ask(s operator.Service, w wanted) answer {
	return console{now: clock}.answer(&session{Service: s, ctx: context.Background()}, w)
}

// textOf returns the lines of a screen.
func textOf(m *screen) string {
	var b strings.Builder
	for _, l := range m.lines() {
		b.WriteString(strings.TrimRight(l.text, " ") + "\n")
	}
	return b.String()
}

// pressed returns what a screen shows after keys of the keyboard, with a service's answers to each.
func pressed(m *screen, s operator.Service, keys string) string {
	for key := range strings.FieldsSeq(keys) {
		m.press(key)
		m.take(ask(s, m.ask))
	}
	return textOf(m)
}

// What the screen says are the numbers of the service: rates from its totals, the rest as `top` lists it.
func TestNumbersOnTheScreen(t *testing.T) {
	s := sample.New(clock)
	got := textOf(sampled(s, 160, 40))
	list, _, err := runIn(s, wording.Look{Width: 160}, "", "top", "-n", "100")
	if err != nil {
		t.Fatal(err)
	}
	refusals, _, err := runIn(s, wording.Look{Width: 160}, "", "refusals")
	if err != nil {
		t.Fatal(err)
	}
	refusals, _, _ = strings.Cut(refusals, "\n\n")
	minute := strings.Repeat(" ", 20) + strings.Repeat("█", 10)
	for _, want := range []string{
		"Let in 12/s " + minute + "   refused 3.0/s " + minute + "   banned 1.0/s\n",
		"ZONE   LETS IN  REFUSES  LET IN  REFUSED\nlogin     12/s    3.0/s     708      177\napi      0.0/s    0.0/s       0        0\n",
		"\n" + list, "\n" + refusals, "by used   zone any",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the screen is\n%s\nwant in it\n%s", got, want)
		}
	}
	if n := strings.Count(got, "\n"); n != 40 {
		t.Errorf("it has %d lines, want 40", n)
	}
}

// Rates are those of the last seconds, also when a second of Caddy's is late, and nothing after a restart.
func TestRatesOnTheScreen(t *testing.T) {
	m := &screen{width: 80, height: 24}
	total := func(seconds float64, allowed int64, zones ...string) {
		t := operator.Totals{At: noon.Add(time.Duration(seconds * float64(time.Second))), Counts: operator.Counts{Allowed: allowed}, Zones: map[string]operator.Counts{}}
		for _, name := range zones {
			t.Zones[name] = t.Counts
		}
		m.count(t)
	}
	for _, step := range []struct {
		seconds float64
		allowed int64
		zones   []string
		want    string
	}{
		{0, 1000, nil, "0.0"}, {1, 1010, nil, "10"}, {2, 1020, nil, "10"}, {4, 1030, nil, "7.5"}, // a second is missing
		{5, 1030, nil, "6.0"}, {6, 1042, []string{"new"}, "7.0"}, {7.5, 1042, []string{"new"}, "4.9"},
		{12, 40, []string{"new"}, "0.0"}, // Caddy has been started again
		{13, 1234040, []string{"new"}, "1,234,000"},
	} {
		total(step.seconds, step.allowed, step.zones...)
		if got := m.head().text; !strings.HasPrefix(got, "Let in "+step.want+"/s") {
			t.Errorf("after %v s: %s, want %s", step.seconds, got, step.want)
		}
		if step.seconds == 6 && m.zoneRates()[0].letIn != 0 {
			t.Errorf("a zone that has begun to run lets in %v in a second", m.zoneRates()[0].letIn)
		}
	}
	for i := range 60 { // the clock stands still, and is set back
		total(13-float64(i/30), 1_300_000+int64(i))
		if got := m.head().text; !strings.HasPrefix(got, "Let in ") {
			t.Errorf("got %q", got)
		}
	}
	for i := range 10_000 {
		total(14+float64(i), 2_000_000)
	}
	if n := len(m.samples); n > 200 {
		t.Errorf("%d totals are kept", n)
	}
}

// Whoever is refused stands out, and the selected row most of all. A shadow limit refuses nobody.
func TestStylesOfRows(t *testing.T) {
	until := noon.Add(time.Minute)
	m := &screen{width: 80, height: 10, shown: answer{at: noon, keys: []operator.Key{
		{Text: "first", BlockedUntil: &until}, {Text: "refused", BlockedUntil: &until}, {Text: "shadow", BlockedUntil: &until, Shadow: true}, {Text: "passes"},
	}}}
	want := []line{{style: wording.Bold}, {style: chosen}, {style: yellow}, {}, {}}
	for i, l := range m.lines()[1:][:len(want)] {
		if l.style != want[i].style {
			t.Errorf("%q is in style %q, want %q", l.text, l.style, want[i].style)
		}
	}
	if plain := tcell.StyleDefault; styleOf(red, false) != plain.Bold(true) || styleOf(yellow, false) != plain {
		t.Error("a terminal without colors is sent some")
	}
}

// The keys of the keyboard do what the help says.
func TestKeysOfTheScreen(t *testing.T) {
	s := sample.New(clock)
	for _, test := range []struct{ keys, has, hasNot string }{
		{"?", "select a row", "203.0.113.77"},
		{"? Esc", "203.0.113.77", "select a row"},
		{"r", "by refused", "by used"},
		{"r u", "by used", "by refused"},
		{"z", "zone api", "203.0.113.77"},
		{"z z", "zone login", "acme/web"},
		{"z z z", "zone any", ""},
		{"p", "Paused", ""},
		{"p p", "by used", "Paused"},
		{"Enter", "Tag: 3fa9c1", "acme/web"},
		{"Enter", "Next request: is refused because the client is banned", "KEY"},
		{"Enter Esc", "KEY", "Next request"},
		{"j Enter", "api-key:acme/web", "203.0.113.77"},
		{"Down Down Up Enter", "api-key:acme/web", "203.0.113.77"},
		{"k k Enter", "203.0.113.77", ""},
		{"p Enter", "Next request", ""}, // who pauses to read may ask
		{"Enter j j j j j j k ?", "select a row", ""},
		{"x \u202e", "KEY", ""},
	} {
		m := sampled(s, 100, 24)
		if got := pressed(m, s, test.keys); !strings.Contains(got, test.has) || test.hasNot != "" && strings.Contains(got, test.hasNot) {
			t.Errorf("after %s it is\n%s\nwant %q, and not %q", test.keys, got, test.has, test.hasNot)
		}
	}
	for keys, ends := range map[string]bool{"q": true, "Esc": true, "Enter Esc": false, "Enter Esc Esc": true, "? Esc": false, "Enter ? Esc Esc": true, "Enter q": true} {
		m, got := sampled(s, 80, 24), false
		for key := range strings.FieldsSeq(keys) {
			got = m.press(key)
		}
		if got != ends {
			t.Errorf("%s ends it: %v, want %v", keys, got, ends)
		}
	}
}

// The selected client stays selected when others overtake it, so that Enter explains the one that was read.
func TestSelectionStaysWithItsKey(t *testing.T) {
	s := sample.New(clock)
	m := sampled(s, 80, 24)
	pressed(m, s, "j j")
	before := m.selectedKey()
	s.Add("another")
	m.take(ask(s, m.ask))
	if got := m.selectedKey(); got.Client != before.Client || m.selected != 3 {
		t.Errorf("row %d is selected: %s, want %s", m.selected, got.Client, before.Client)
	}
	m.press("p")
	s.Add("more")
	if m.take(ask(s, m.ask)); len(m.shown.keys) != 11 {
		t.Errorf("a paused screen changes: %d keys", len(m.shown.keys))
	}
	m.press("p")
	late := ask(s, m.ask)
	m.press("z")
	if m.take(late); len(m.shown.keys) != 11 {
		t.Error("it shows an answer that isn't wanted any more")
	}
}

// Whatever clients choose and however large the terminal is, the screen fits, and nothing of it is unprintable.
func TestScreenFits(t *testing.T) {
	t.Parallel()
	s := sample.New(clock)
	for _, text := range hostile {
		s.Add(text)
	}
	many := &many{s, 10_000}
	for _, keys := range []string{"r", "Enter", "j j j j Enter", "j Enter", "?", "Tab"} {
		m := sampled(many, 80, 24)
		pressed(m, many, keys)
		for _, m.width = range []int{0, 1, 2, 5, 19, 20, 21, 40, 41, 49, 50, 79, 80, 81, 120, 300} {
			for _, m.height = range []int{0, 1, 2, 3, 4, 5, 6, 13, 14, 15, 21, 22, 23, 24, 60} {
				lines := m.lines()
				if len(lines) != max(m.height, 2) {
					t.Fatalf("%d lines on %dx%d", len(lines), m.width, m.height)
				}
				for _, l := range lines {
					if l.text != allPrintable(l.text) {
						t.Fatalf("on %dx%d after %s: %q", m.width, m.height, keys, l.text)
					}
				}
			}
		}
	}
	m := sampled(many, 20, 5)
	want := "Let in 12/s   refused 3.0/s   banned 1.0/s\nKEY     USED  REFUS…\n'key:…     1       0\n'key:…     1       0\n? keys   q ends"
	if got := textOf(m); !strings.HasPrefix(got, want) {
		t.Errorf("20x5 is\n%swant\n%s", got, want)
	}
	m.width, m.height = 80, 24
	for range 9_990 {
		m.press("j")
	}
	if got := textOf(m); !strings.Contains(got, "198.51.100.24") || m.selected != 9_990 {
		t.Errorf("row %d is selected on\n%s", m.selected, got)
	}
}

// many is a service with many keys.
type many struct {
	*sample.Service
	n int
}

func (m *many) Keys(ctx context.Context, q operator.KeysQuery) ([]operator.Key, error) {
	keys, err := m.Service.Keys(ctx, q)
	for first := len(keys); first > 0 && len(keys) < m.n; {
		keys = append(keys, keys[len(keys)%first])
	}
	return keys, err
}

// display is a screen on an emulated terminal.
type display struct {
	*terminal.Emulated
	ended chan error
}

// displayOf shows a service's screen on a terminal until its context ends.
func displayOf(t *testing.T, ctx context.Context, s operator.Service, width, height int) *display {
	t.Helper()
	d := &display{terminal.New(width, height), make(chan error, 1)}
	tty, err := tcell.NewTerminfoScreenFromTty(d, tcell.OptSanitizeContent(true), tcell.OptColors(256))
	if err == nil {
		err = tty.Init()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := console{now: clock}
	m := &screen{ask: wanted{KeysQuery: operator.KeysQuery{N: screenKeys}}}
	m.take(ask(s, m.ask))
	go func() {
		err := c.runScreen(&session{Service: s, ctx: ctx}, m, tty)
		tty.Fini()
		d.ended <- err
	}()
	return d
}

// wantEnd waits for the end of the screen.
func (d *display) wantEnd(t *testing.T) {
	t.Helper()
	if err := <-d.ended; err != nil {
		t.Errorf("the screen ends with %v", err)
	}
}

// Clients choose keys. None of their text moves the cursor, changes colors, or does anything else to a terminal.
func TestNothingHostileReachesTheScreen(t *testing.T) {
	t.Parallel()
	s := sample.New(clock)
	for _, text := range hostile {
		s.Add(text)
	}
	s.Fail(nil)
	d := displayOf(t, t.Context(), &many{s, 10_000}, 80, 24)
	d.Await(t, "? keys   q ends")
	for _, size := range []vt.Coord{{X: 20, Y: 5}, {X: 1, Y: 1}, {X: 200, Y: 60}, {X: 80, Y: 24}} {
		d.Resize(int(size.X), int(size.Y))
		d.Type("jjjkkzuzur??") // while it draws
		if size.Y > 1 {
			d.Await(t, "KEY")
			d.Type("\r")
			d.Await(t, "Esc goes back")
			d.Type("\x1b")
			d.Await(t, "? keys   q ends")
		}
		for y := range size.Y {
			for x := range size.X {
				c := d.GetCell(vt.Coord{X: x, Y: y})
				if c.S == nil {
					continue
				}
				if c.S.Attr()&^(vt.Bold|vt.Reverse) != 0 || c.C != allPrintable(c.C) && c.C != "e\u0301\u200d" {
					t.Fatalf("on %v a cell is %+v", size, c)
				}
			}
		}
		if d.Bells() != 0 || d.GetTitle() != "" || len(d.Backend().GetClipboard()) != 0 {
			t.Fatalf("a client rings the bell or sets the title %q", d.GetTitle())
		}
	}
	d.Type("q")
	d.wantEnd(t)
}

// unsteady is a service whose stream of events ends, and which fails or panics for a while.
type unsteady struct {
	*sample.Service
	streams, panics atomic.Int64
}

func (u *unsteady) Events(ctx context.Context) (<-chan operator.Event, error) {
	if u.streams.Add(1)%2 == 0 {
		return nil, errors.New("no Caddy can be asked \x1b[2J")
	}
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	context.AfterFunc(ctx, cancel)
	return u.Service.Events(ctx)
}

func (u *unsteady) Keys(ctx context.Context, q operator.KeysQuery) ([]operator.Key, error) {
	if u.panics.Load() > 0 {
		panic("index out of range")
	}
	return u.Service.Keys(ctx, q)
}

// A Caddy that reloads, stops or fails is said to, and asked again.
func TestScreenOutlivesCaddy(t *testing.T) {
	t.Parallel()
	u := &unsteady{Service: sample.New(clock)}
	d := displayOf(t, t.Context(), u, 100, 24)
	for range 2 {
		d.Await(t, "Let in")
		d.Await(t, "Connecting again: Caddy loads another config, or has stopped")
		d.Await(t, `Connecting again: no Caddy can be asked \x1b[2J`)
	}
	u.Fail(errors.New("there is no zone"))
	d.Await(t, "there is no zone")
	d.Await(t, "203.0.113.77") // as it was
	d.Type("\r")
	d.Await(t, "Esc goes back")
	d.Await(t, "there is no zone")
	d.Type("\x1b")
	u.Fail(nil)
	d.Await(t, "by used")
	u.panics.Store(1)
	if err := <-d.ended; err == nil || fmt.Sprint(err) != "the screen has failed, please report this: index out of range" {
		t.Errorf("it ends with %v", err)
	}
}

// The screen ends with its context, as after SIGTERM.
func TestScreenEnds(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	s := sample.New(clock)
	d := displayOf(t, ctx, s, 80, 24)
	d.Await(t, "Let in")
	end()
	d.wantEnd(t)
	if s.Streams() != 0 {
		t.Error("a stream is open")
	}
}
