package replay

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Bar shows the progress of a replay on a terminal, once it takes a while.
type Bar struct {
	out   io.Writer
	now   func() time.Time
	begun time.Time

	mu      sync.Mutex
	shown   time.Time // guarded by mu, like all below
	drawn   bool
	cleared bool
}

// NewBar returns a bar that is drawn to a terminal.
func NewBar(out io.Writer) *Bar { return newBar(out, time.Now) }

func newBar(out io.Writer, now func() time.Time) *Bar {
	return &Bar{out: out, now: now, begun: now(), shown: now()}
}

const (
	barAfter = 2 * time.Second // no bar is shown before
	barEvery = 200 * time.Millisecond
	barWidth = 30
)

// Show redraws the bar: read of size bytes, with so many lines.
func (b *Bar) Show(read, size, lines int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	took := now.Sub(b.begun)
	if b.cleared || took < barAfter || now.Sub(b.shown) < barEvery {
		return
	}
	b.shown, b.drawn = now, true
	text := fmt.Sprintf("%s lines", wording.Number(lines))
	if size > 0 && read > 0 {
		done := min(float64(read)/float64(size), 1)
		full := int(done * barWidth)
		left := time.Duration(float64(took) * (1 - done) / done).Round(time.Second)
		text = fmt.Sprintf("%s%s %3.0f %%  %s  %s left", strings.Repeat("█", full), strings.Repeat("░", barWidth-full),
			100*done, text, left)
	}
	fmt.Fprintf(b.out, "\r\x1b[K%s", text)
}

// Clear removes the bar for good.
func (b *Bar) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleared = true
	if b.drawn {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
	b.drawn = false
}
