package challenge

import (
	"strings"
	"testing"
	"time"
)

func setWait(s *Setter, now time.Time, wait time.Duration) Wait {
	return s.SetWait(now, site, home, wait)
}

// A token is valid from the end of its wait for two minutes, for the site and network that it was
// made for.
func TestWait(t *testing.T) {
	s := newSetter(t, 8, oneSecret)
	w := setWait(s, t0, 10*time.Second)
	for _, c := range []struct {
		what    string
		setter  *Setter
		age     time.Duration
		site    string
		network []byte
		want    error
	}{
		{"at once", s, 0, site, home, ErrEarly},
		{"almost", s, 10*time.Second - 1, site, home, ErrEarly},
		{"in time", s, 10 * time.Second, site, home, nil},
		{"at last", s, 10*time.Second + waitLasts - 1, site, home, nil},
		{"too late", s, 10*time.Second + waitLasts, site, home, ErrExpired},
		{"another site", s, time.Minute, "example.org", home, ErrForeign},
		{"another network", s, time.Minute, site, other, ErrForeign},
		{"another secret", newSetter(t, 8, anotherSecret), time.Minute, site, home, ErrForeign},
		{"a rotated secret", newSetter(t, 8, anotherSecret, oneSecret), time.Minute, site, home, nil},
	} {
		if _, err := c.setter.CheckWait(t0.Add(c.age), c.site, c.network, w.Token); err != c.want {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	first, _ := s.CheckWait(t0.Add(time.Minute), site, home, w.Token)
	second, _ := s.CheckWait(t0.Add(time.Minute), site, home, setWait(s, t0, 10*time.Second).Token)
	if first == second || first == (Nonce{}) {
		t.Error("two tokens have one nonce")
	}
}

// A browser that waits for the requested time is never too early, whenever within a second the wait
// began.
func TestBrowsersThatWaitAreNotEarly(t *testing.T) {
	s := newSetter(t, 8, oneSecret)
	for _, part := range []time.Duration{0, 1, time.Second / 2, time.Second - 1} {
		now := t0.Add(part)
		w := setWait(s, now, MinWait)
		if wait := time.Duration(w.Seconds) * time.Second; wait < MinWait || wait > MinWait+time.Second {
			t.Errorf("%v: it is told to wait %v", part, wait)
		} else if _, err := s.CheckWait(now.Add(wait), site, home, w.Token); err != nil {
			t.Errorf("%v: after %v: %v", part, wait, err)
		}
		if _, err := s.CheckWait(now.Add(MinWait-1), site, home, w.Token); err != ErrEarly {
			t.Errorf("%v: before: %v", part, err)
		}
	}
}

// A token is no puzzle, a puzzle is no token, and no bit of a token can be changed.
func TestTokensAreNoPuzzles(t *testing.T) {
	s := newSetter(t, 1, oneSecret)
	w := setWait(s, t0, MinWait)
	later := t0.Add(time.Minute)
	if _, err := s.Check(later, site, home, w.Token, strings.Repeat("0", NumberSize)); err != ErrMalformed {
		t.Errorf("a token as a puzzle: %v", err)
	}
	if _, err := s.CheckWait(later, site, home, set(s).Text); err != ErrMalformed {
		t.Errorf("a puzzle as a token: %v", err)
	}
	for i := range PuzzleSize * 8 {
		flipped := []byte(w.Token)
		flipped[i/8] ^= 1 << (i % 8)
		if _, err := s.CheckWait(later, site, home, string(flipped)); err != ErrMalformed && err != ErrForeign {
			t.Errorf("bit %d: %v", i, err)
		}
	}
}
