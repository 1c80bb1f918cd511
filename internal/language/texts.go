package language

import (
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Texts are the texts of pages in one language. Every field has a text in every language. None
// contains HTML.
type Texts struct {
	Tag string // of the language (BCP 47), for `lang` and Content-Language

	In [4]Forms // "in 42 seconds": by wording.Unit

	// On the page of a refused request; some also on the page of the challenge.
	Title     string // also its heading
	Lead      string // the reason, without blame
	Come      string // when to come back; %s is the result of Texts.Wait
	Never     string // that waiting doesn't help
	Line      string // how many requests wait in the line, %s, and that the page continues by itself
	Now       string // that the time is over
	Again     string // for a link and a button
	Reference string // introduces the reference
	Contact   string // introduces the contact

	// On the page of the challenge.
	Moment     string // its title and heading
	Puzzle     string // that a puzzle is being solved, and why
	Widget     string // that a person has to do something, and why
	Solving    string // while the puzzle is being solved
	Slow       string // when solving takes long
	Done       string // when it is solved
	NoScript   string // that JavaScript is switched off
	Waits      string // that JavaScript is switched off and the page continues by itself; %s as in Come
	Continue   string // a link to continue
	NoCookies  string // that cookies are switched off
	NoCookie   string // that the session's cookie didn't come back
	Framed     string // that the challenge isn't shown in a frame
	InCircles  string // that sessions don't help
	Unloaded   string // that the widget's script could not be loaded
	Why        string // the question for the details below
	Shared     string // that a limit is shared by an address
	PuzzleDoes string // the purpose of the puzzle
	WidgetDoes string // the purpose of the widget
	Cookie     string // the content of the cookie
	Private    string // that nothing is loaded from elsewhere

	// The reasons for showing the challenge again.
	Used        string // the solution was accepted before
	Expired     string // it came too late
	Foreign     string // the network has changed
	Unsolved    string // it wasn't a solution
	Early       string // it came too early
	Unavailable string // the service can't be reached
	Failed      string // the service rejected it
}

// Forms are a text with a number, %d, in the grammatical forms of a language.
type Forms struct {
	One   string // for 1; "" if there is no such form
	Few   string // for 2 to 4, 22 to 24, 32 to 34 …, as in Polish; "" if there is no such form
	Other string
}

// Format returns the text with a number.
func (f Forms) Format(n int64) string {
	form := f.Other
	switch {
	case n == 1 && f.One != "":
		form = f.One
	case f.Few != "" && n%10 >= 2 && n%10 <= 4 && (n%100 < 12 || n%100 > 14):
		form = f.Few
	}
	return fmt.Sprintf(form, n)
}

// Wait returns the end of a waiting time, such as "in 42 seconds", rounded up as by [wording.Span].
// It returns "" if there is none.
func (t *Texts) Wait(d time.Duration) string {
	n, unit := wording.Span(d)
	if n == 0 {
		return ""
	}
	return t.In[unit].Format(n)
}

// ComeBack returns the sentence about when to come back, or "" without a waiting time.
func (t *Texts) ComeBack(d time.Duration) string {
	wait := t.Wait(d)
	if wait == "" {
		return ""
	}
	return fmt.Sprintf(t.Come, wait)
}
