package grammar

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// values are what the lines of the tests set.
type values struct {
	n, after       int
	size           int64
	length, within caddy.Duration
	text, word     string
	list, events   []string
	flag, hold     bool
	reads          bool
	rate           []string
	rest           []string
	inner          *values
}

func (v *values) block() Block {
	return Block{
		Check: func() error {
			if v.n == 13 {
				return errors.New("thirteen is too many")
			}
			return nil
		},
		Rules: func() Rules {
			inner := new(values)
			return Rules{
				Line("n <n>", &v.n),
				Line("size <size>", &v.size),
				Line("text <text>", &v.text),
				Line("flag", &v.flag),
				Line("list <name...>", &v.list).Repeats(),
				Line("on ban|lift...", &v.events),
				Line("ban after <n> violations in <duration> [up to <duration>]", &v.after, &v.within, &v.length),
				Line("limit <rate> [burst <n>] [slow|fast] [shadow]", func(words []string) (int, error) {
					if strings.HasPrefix(words[0], "x") {
						return 0, errors.New("an amount is missing")
					}
					taken := 1
					for taken < len(words) && words[taken] == "more" {
						taken++
					}
					v.rate = append(v.rate, words[:taken]...)
					return taken, nil
				}, &v.n, &v.word, &v.flag).Repeats(),
				Line("limit <n> concurrent", &v.n).Repeats(),
				Line("count <status...> [hold [read [<size>]]]", func(s string) error { v.rate = append(v.rate, s); return nil }, &v.hold, &v.reads, &v.size),
				Line("trap [ban <duration>] <matcher...>", &v.length, func(d *caddyfile.Dispenser) error { v.rest = d.RemainingArgs(); return nil }),
				Line("block <name>", &inner.text).Then(func() error { v.inner = inner; return nil }).With(Block{Rules: func() Rules { return Rules{Line("n <n>", &inner.n)} }}),
			}
		},
	}
}

func read(lines string) (*values, error) {
	v := new(values)
	d := caddyfile.NewTestDispenser("block {\n" + lines + "\n}")
	d.Next()
	return v, v.block().Read(d)
}

func TestLinesSetWhatTheySay(t *testing.T) {
	minute := caddy.Duration(time.Minute)
	for line, want := range map[string]values{
		"n 1_000":                               {n: 1000},
		"size 2KB":                              {size: 2000},
		`text "two words"`:                      {text: "two words"},
		"flag":                                  {flag: true},
		"list a b\nlist c":                      {list: []string{"a", "b", "c"}},
		"on lift ban":                           {events: []string{"lift", "ban"}},
		"ban after 5 violations in 1m":          {after: 5, within: minute},
		"ban after 1 violation in 1m up to 60s": {after: 1, within: minute, length: minute},
		"limit a":                               {rate: []string{"a"}},
		"limit a more shadow fast burst 7":      {rate: []string{"a", "more"}, n: 7, word: "fast", flag: true},
		"count 401 403":                         {rate: []string{"401", "403"}},
		"count 401 hold":                        {rate: []string{"401"}, hold: true},
		"count 401 hold read":                   {rate: []string{"401"}, hold: true, reads: true},
		"count 401 hold read 64KB":              {rate: []string{"401"}, hold: true, reads: true, size: 64000},
		"trap /x /y":                            {rest: []string{"/x", "/y"}},
		"trap ban 1m /x":                        {rest: []string{"/x"}, length: minute},
		"block a":                               {inner: &values{text: "a"}},
		"block a {\nn 5\n}\nflag":               {inner: &values{text: "a", n: 5}, flag: true},
		"n 13\nlimit a burst 2":                 {rate: []string{"a"}, n: 2}, // a later line resolves an earlier one's error
		"limit x concurrent\nlimit x5 concurrent\n#x": {},
	} {
		got, err := read(line)
		if strings.HasPrefix(line, "limit x ") {
			if err == nil {
				t.Errorf("%s: accepted", line)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if fmt.Sprintf("%+v %+v", *got, got.inner) != fmt.Sprintf("%+v %+v", want, want.inner) && got.inner == nil {
			t.Errorf("%s: got %+v, want %+v", line, *got, want)
		}
		if got.inner != nil && fmt.Sprintf("%+v", *got.inner) != fmt.Sprintf("%+v", *want.inner) {
			t.Errorf("%s: got %+v in the block, want %+v", line, *got.inner, *want.inner)
		}
	}
}

func TestErrorsNameTheWordAndTheSyntax(t *testing.T) {
	const ban = "; the syntax is ban after <n> violations in <duration> [up to <duration>], at Testfile:2"
	for line, want := range map[string]string{
		"n":                            "n: <n> is missing; the syntax is n <n>, at Testfile:2",
		"n x":                          `n: must be a whole number above zero, got "x"; the syntax is n <n>, at Testfile:2`,
		"n 1 2":                        `n: got "2", where nothing more is expected; the syntax is n <n>, at Testfile:2`,
		"n 1\nn 2":                     "n is given twice: write it once, at Testfile:3",
		"n 1 {\n}":                     "",
		"n 1 {\nx\n}":                  "n: it has no block; the syntax is n <n>, at Testfile:2",
		`text ""`:                      "text: must not be empty; the syntax is text <text>, at Testfile:2",
		"flag on":                      `flag: got "on", where nothing more is expected; the syntax is flag, at Testfile:2`,
		"size -1":                      `size: must be a whole number above zero, got "-1"; the syntax is size <size>, at Testfile:2`,
		"ban":                          "ban: after is missing" + ban,
		"ban afer 5":                   `ban: expected after, got "afer": did you mean after?` + ban,
		"ban after":                    "ban: after: <n> is missing" + ban,
		"on bann":                      `on: expected ban or lift, got "bann": did you mean ban?; the syntax is on ban|lift..., at Testfile:2`,
		"limit x":                      "limit: an amount is missing; the syntax is limit <rate> [burst <n>] [slow|fast] [shadow] or limit <n> concurrent, at Testfile:2",
		"nn 5":                         `unrecognized option "nn": did you mean n?, at Testfile:2`,
		"unknown 5":                    `unrecognized option "unknown": expected n, size, text, flag, list, on, ban, limit, count, trap or block, at Testfile:2`,
		"flag\nn 13":                   "thirteen is too many, at Testfile:3",
		"n 13\nflag":                   "thirteen is too many, at Testfile:2",
		"limit a fast slow":            `limit: got "slow", but slow or fast is given already; the syntax is limit <rate> [burst <n>] [slow|fast] [shadow] or limit <n> concurrent, at Testfile:2`,
		"block a {\nn x\n}":            `block "a": n: must be a whole number above zero, got "x"; the syntax is n <n>, at Testfile:3`,
		"ban after 5 violations in 0s": `ban: in: must be a duration above zero, such as 100ms, 10m or 1d, got "0s"` + ban,
	} {
		_, err := read(line)
		if got := fmt.Sprint(err); got != want && (want != "" || err != nil) {
			t.Errorf("%s:\n\tgot  %s\n\twant %s", line, got, want)
		}
	}
}

// The documentation of a block is what it reads.
func TestTextHasTheBlocks(t *testing.T) {
	text := new(values).block().Text("\t")
	if !strings.HasSuffix(text, "\tblock <name> {\n\t\tn <n>\n\t}\n") || strings.Count(text, "\n") != 14 {
		t.Errorf("got\n%s", text)
	}
}

// No text makes the reading of a block panic, or go on for ever.
func FuzzBlock(f *testing.F) {
	f.Add("n 1\nlimit a burst 2 shadow\nblock x {\nn 2\n}")
	f.Add("ban after 5 violations in 1m up to 2m\ncount 1 hold read\ntrap ban 1m /x")
	f.Fuzz(func(t *testing.T, text string) {
		v, d := new(values), caddyfile.NewTestDispenser("block {\n"+text+"\n}")
		d.Next()
		if err := v.block().Read(d); err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
	})
}
