package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// reconnectEvery is the pause before a screen asks for totals again.
const reconnectEvery = time.Second

// watchOnTerminal shows keys on the terminal of this process, or lists them repeatedly if the terminal can't
// show a screen.
func (c console) watchOnTerminal(s *session, q operator.KeysQuery) error {
	ctx, stop := signal.NotifyContext(s.ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	s.ctx = ctx
	m := &screen{ask: wanted{KeysQuery: q}}
	if m.take(c.answer(s, m.ask)); m.failed != "" {
		return errors.New(m.failed)
	}
	display, err := tcell.NewScreen(tcell.OptSanitizeContent(true))
	if err != nil || display.Init() != nil {
		return c.watchKeys(s, q)
	}
	defer display.Fini()
	return c.runScreen(s, m, display)
}

// runScreen shows a screen until somebody ends it, or the session's context ends.
func (c console) runScreen(s *session, m *screen, display tcell.Screen) error {
	ctx, end := context.WithCancel(s.ctx)
	defer end()
	group, ctx := errgroup.WithContext(ctx)
	live := *s
	live.ctx = ctx
	changes, asks, ask := make(chan func(*screen)), make(chan wanted, 1), m.ask
	change := func(f func(*screen)) {
		select {
		case changes <- f:
		case <-ctx.Done():
		}
	}
	for _, run := range []func() error{
		func() error { live.followTotals(change); return nil },
		func() error { c.answerAll(&live, ask, asks, change); return nil },
		func() error { defer end(); return show(ctx, m, display, changes, asks) },
	} {
		group.Go(func() (err error) {
			defer func() { // a goroutine that panics leaves the terminal as it is
				if fault := recover(); fault != nil {
					err = fmt.Errorf("the screen has failed, please report this: %v", fault)
				}
			}()
			return run()
		})
	}
	return group.Wait()
}

// show draws a screen after each change, until a key ends it.
func show(ctx context.Context, m *screen, display tcell.Screen, changes <-chan func(*screen), asks chan wanted) error {
	for i, level := range levels {
		display.RegisterRuneFallback(level, "_.-=+*%#"[i:i+1]) // for terminals without UTF-8
	}
	for asked := m.ask; ; {
		draw(m, display)
		select {
		case <-ctx.Done():
			return nil
		case change := <-changes:
			change(m)
		case event := <-display.EventQ():
			switch event := event.(type) {
			case *tcell.EventKey:
				name := tcell.KeyNames[event.Key()]
				if event.Key() == tcell.KeyRune {
					name = event.Str()
				}
				if m.press(name) {
					return nil
				}
			case *tcell.EventError:
				return event
			}
		}
		if m.ask != asked {
			asked = m.ask
			select {
			case <-asks: // nobody wants it any more
			default:
			}
			asks <- asked
		}
	}
}

// draw shows the lines of a screen. Each character gets a cell of the display, or two, so that no text can
// leave its line.
func draw(m *screen, display tcell.Screen) {
	m.width, m.height = display.Size()
	display.Clear()
	for y, l := range m.lines() {
		style := styleOf(l.style, display.Colors() > 0)
		if l.style == chosen {
			display.FillArea(0, y, m.width, 1, ' ', style)
		}
		display.PutStrStyled(0, y, l.text, style)
	}
	display.Show()
}

// styleOf returns a style of the display, without colors unless it has some.
func styleOf(style wording.Style, colored bool) tcell.Style {
	switch plain := tcell.StyleDefault; {
	case style == chosen:
		return plain.Reverse(true)
	case style == wording.Bold, style == red && !colored:
		return plain.Bold(true)
	case style == red:
		return plain.Foreground(color.Maroon)
	case style == yellow && colored:
		return plain.Foreground(color.Olive)
	default:
		return plain
	}
}

// followTotals receives totals, and connects again whenever they end, until the session's context ends.
func (s *session) followTotals(change func(func(*screen))) {
	for s.ctx.Err() == nil {
		lost := "Caddy loads another config, or has stopped"
		events, err := s.Events(s.ctx)
		if err != nil {
			lost = err.Error()
		} else {
			for event := range events {
				if t := event.Totals; t != nil {
					change(func(m *screen) { m.count(*t) })
				}
			}
		}
		change(func(m *screen) { m.lost = lost })
		select {
		case <-time.After(reconnectEvery):
		case <-s.ctx.Done():
		}
	}
}

// answerAll answers what a screen asks, at once when it asks something else, until the session's context ends.
func (c console) answerAll(s *session, ask wanted, asks <-chan wanted, change func(func(*screen))) {
	for {
		select {
		case ask = <-asks:
		case <-time.After(watchEvery):
		case <-s.ctx.Done():
			return
		}
		a := c.answer(s, ask)
		change(func(m *screen) { m.take(a) })
	}
}

// answer asks Caddy.
func (c console) answer(s *session, ask wanted) (a answer) {
	a.wanted, a.at = ask, c.now()
	if ask.client != "" {
		a.explained, a.err = s.Explain(s.ctx, operator.Question{Client: ask.client})
		return a
	}
	if a.keys, a.err = s.Keys(s.ctx, ask.KeysQuery); a.err == nil {
		refusals, _ := s.Refusals(s.ctx, operator.RefusalsQuery{Zone: ask.Zone}) // an error: there are none to show
		a.refused = refusals.Latest
	}
	return a
}
