package identity

import (
	"slices"
	"strings"
	"testing"
)

func cookies(fields []string, name string) (values []string) {
	FindCookie(fields, name, func(value string) bool {
		values = append(values, value)
		return false
	})
	return values
}

func TestCookies(t *testing.T) {
	for _, c := range []struct {
		fields []string
		values []string // of rl
		rest   []string
	}{
		{nil, nil, nil},
		{[]string{"rl=1"}, []string{"1"}, nil},
		{[]string{"a=b; rl=1; c=d"}, []string{"1"}, []string{"a=b; c=d"}},
		{[]string{"a=b", "rl=1", "c=d"}, []string{"1"}, []string{"a=b", "c=d"}},
		{[]string{"rl=1; rl=2", "rl=3"}, []string{"1", "2", "3"}, nil},
		{[]string{"a=b;rl=1;;c"}, []string{"1"}, []string{"a=b; c"}},
		{[]string{"\trl \t=\t1 "}, []string{"1"}, nil},
		{[]string{"rl="}, []string{""}, nil},
		{[]string{"rl=a=b"}, []string{"a=b"}, nil},
		{[]string{"RL=1; Rl=2; rlx=3; xrl=4; rl; =rl=5; a=rl=6"}, nil, []string{"RL=1; Rl=2; rlx=3; xrl=4; rl; =rl=5; a=rl=6"}},
		{[]string{"__Host-rl=1"}, nil, []string{"__Host-rl=1"}},
		{[]string{" ;; "}, nil, []string{" ;; "}},
	} {
		if got := cookies(c.fields, "rl"); !slices.Equal(got, c.values) {
			t.Errorf("%q: got %q, want %q", c.fields, got, c.values)
		}
		before := slices.Clone(c.fields)
		if got := StripCookie(c.fields, "rl"); !slices.Equal(got, c.rest) {
			t.Errorf("%q: left %q, want %q", c.fields, got, c.rest)
		}
		if !slices.Equal(before, c.fields) {
			t.Errorf("%q was changed to %q", before, c.fields)
		}
	}
}

func TestCookiesAreTriedUntilOneIsRight(t *testing.T) {
	tried := 0
	found := FindCookie([]string{"rl=1; rl=2; rl=3"}, "rl", func(value string) bool {
		tried++
		return value == "2"
	})
	if !found || tried != 2 {
		t.Errorf("%v after %d, want true after 2", found, tried)
	}
}

func TestCookiesTriedAreBounded(t *testing.T) {
	many := []string{strings.Repeat("rl=1; ", 20), strings.Repeat("rl=1; ", 20)}
	if n := len(cookies(many, "rl")); n != MaxCookies {
		t.Errorf("%d cookies were tried, want %d", n, MaxCookies)
	}
	if left := StripCookie(many, "rl"); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

func TestRequestsWithoutTheCookieAllocateNothing(t *testing.T) {
	fields := []string{"a=b; c=d", "url=1; session=" + strings.Repeat("x", 1000)}
	if n := testing.AllocsPerRun(100, func() {
		FindCookie(fields, "rl", func(string) bool { return true })
		StripCookie(fields, "rl")
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// StripCookie removes the whole cookie, and nothing of other cookies.
func FuzzStripCookie(f *testing.F) {
	f.Add("a=b; rl=1; c=d", "rl=2")
	f.Add("rl=1;rl", "=rl; rl = 3")
	f.Fuzz(func(t *testing.T, one, two string) {
		fields := []string{one, two}
		left := StripCookie(fields, "rl")
		if still := cookies(left, "rl"); len(still) > 0 {
			t.Errorf("%q: left %q", fields, still)
		}
		for _, other := range []string{"a", "c", "RL"} {
			if before, after := cookies(fields, other), cookies(left, other); !slices.Equal(before, after) {
				t.Errorf("%q: cookies %s were %q and are %q", fields, other, before, after)
			}
		}
	})
}
