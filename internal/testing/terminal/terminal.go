// Package terminal has emulated terminals for tests, and on Linux pseudo terminals with processes in them.
package terminal

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3/vt"
)

// patience is how long a text may take to appear.
const patience = time.Minute

// Emulated is an emulated terminal.
type Emulated struct {
	vt.MockTerm
	wrote chan struct{} // has a value after a write
}

// New returns a terminal of a size.
func New(width, height int) *Emulated {
	return &Emulated{vt.NewMockTerm(vt.MockOptSize{X: vt.Col(width), Y: vt.Row(height)}), make(chan struct{}, 1)}
}

// Write shows what a process writes.
func (e *Emulated) Write(b []byte) (int, error) {
	n, err := e.MockTerm.Write(b)
	_ = e.Drain() // it never fails
	select {
	case e.wrote <- struct{}{}:
	default:
	}
	return n, err
}

// Resize gives the terminal another size.
func (e *Emulated) Resize(width, height int) {
	e.SetSize(vt.Coord{X: vt.Col(width), Y: vt.Row(height)})
}

// Type presses keys of the keyboard.
func (e *Emulated) Type(keys string) { e.SendRaw([]byte(keys)) }

// Text returns what the terminal shows, without spaces at the ends of lines.
func (e *Emulated) Text() string {
	var b strings.Builder
	size, _ := e.WindowSize()
	for y := range size.Height {
		var row strings.Builder
		for x := 0; x < size.Width; x++ {
			c := e.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)})
			row.WriteString(cmp.Or(c.C, " "))
			x += max(c.W-1, 0)
		}
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	return b.String()
}

// Await waits until the terminal shows a text.
func (e *Emulated) Await(t *testing.T, text string) {
	t.Helper()
	e.AwaitThat(t, text, func(shown string) bool { return strings.Contains(shown, text) })
}

// AwaitThat waits until the terminal shows what a function asks for. It describes that in a failure.
func (e *Emulated) AwaitThat(t *testing.T, what string, match func(shown string) bool) {
	t.Helper()
	for late := time.After(patience); !match(e.Text()); {
		select {
		case <-e.wrote:
		case <-late:
			t.Fatalf("the terminal shows\n%s\nwant %q", e.Text(), what)
		}
	}
}
