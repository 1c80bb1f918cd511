package bodyfield

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// textOf returns the text of a scalar token.
func textOf(token any) string {
	switch token := token.(type) {
	case nil:
		return ""
	case json.Number:
		if whole := strings.TrimPrefix(string(token), "-"); whole != "0" && !strings.ContainsAny(whole, ".eE") {
			return string(token)
		}
		n, err := strconv.ParseFloat(string(token), 64)
		if err != nil && !math.IsInf(n, 0) {
			return string(token)
		}
		if n == 0 {
			return "0"
		}
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return fmt.Sprint(token)
}

// walk finds the values at a path, as an oracle for the scanner: recursively, in decoded tokens.
func walk(d *json.Decoder, path []string, rest []string, depth int, exact bool, found func(string)) {
	token, err := d.Token()
	if err != nil {
		panic(err)
	}
	switch token {
	case json.Delim('['):
		for d.More() {
			walk(d, path, rest, depth, exact, found)
		}
		d.Token()
	case json.Delim('{'):
		for d.More() {
			name, err := d.Token()
			if err != nil {
				panic(err)
			}
			inner := []string(nil)
			switch {
			case rest != nil && len(rest) == 0:
				inner = rest
			case len(rest) > 0 && strings.EqualFold(rest[0], name.(string)):
				inner = rest[1:]
			}
			walk(d, path, inner, depth+1, exact, found)
		}
		d.Token()
	default:
		if rest != nil && len(rest) == 0 && (!exact || depth == len(path)) {
			found(textOf(token))
		}
	}
}

func expected(data []byte, paths [][]string, exact bool) [][]string {
	all := make([][]string, len(paths))
	for i, path := range paths {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		walk(d, path, path, 0, exact, func(text string) { all[i] = append(all[i], text) })
	}
	return all
}

// scanned returns what the scanner finds in pieces of random lengths.
func scanned(data []byte, paths [][]string, exact bool, random *rand.Rand) ([][]string, bool) {
	all := make([][]string, len(paths))
	s := NewScanner(paths, exact, func(i int, text string) { all[i] = append(all[i], text) })
	for len(data) > 0 {
		n := 1 + random.IntN(min(len(data), 1+random.IntN(64)))
		s.Scan(data[:n])
		data = data[n:]
	}
	return all, s.End()
}

var paths = [][]string{{"a"}, {"usage", "total"}, {"a", "a"}, {"a", "b", "c"}, {"é"}, {"total"}}

// The scanner finds in valid JSON what a decoder finds, in whatever pieces it comes.
func FuzzScanner(f *testing.F) {
	for _, text := range []string{
		`{"a":1}`, `{"usage":{"total":12,"total":13}}`, ` [ {"a":{"a":"x","b":[{"c":null}]}} ] `, `{"\u0061":"\u00e9\"}","A":true}`, `"a"`, `12`, `{}`, `[]`, `[[],{}]`,
		`{"x":"{\"usage\":{\"total\":9}}","usage":{"x":{"total":1},"total":2}}`, `{"a":[1,[2,{"a":3}],"4"]}`, `{"usage":[{"total":1e3},{"total":-0}]}`, `{"é":"ü","a":{"b":{"c":{"d":1}}}}`,
		`{"a":"\ud800","b":"\\"}`, `{"a":1e400}`, `{"a":{},"total":5}`,
	} {
		f.Add([]byte(text), uint64(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		if !json.Valid(data) || !utf8.Valid(data) {
			scanned(data, paths, true, random) // neither panics nor blocks
			return
		}
		if strings.Count(string(data), "[")+strings.Count(string(data), "{") > maxDepth {
			return
		}
		for _, exact := range []bool{false, true} {
			got, complete := scanned(data, paths, exact, random)
			if want := expected(data, paths, exact); !complete || !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%s: found %q, complete %v, want %q", data, got, complete, want)
			}
		}
	})
}

// Random documents, in random pieces.
func TestScannerFindsWhatADecoderFinds(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	names := []string{"a", "A", "usage", "total", "b", "c", "x", "é", `\u0061`, `\"`, ""}
	var value func(depth int) string
	value = func(depth int) string {
		switch n := random.IntN(9); {
		case n < 3 && depth < 6:
			var members []string
			for range random.IntN(4) {
				members = append(members, `"`+names[random.IntN(len(names))]+`" :`+value(depth+1))
			}
			return "{" + strings.Join(members, ",\n") + "}"
		case n < 5 && depth < 6:
			var elements []string
			for range random.IntN(4) {
				elements = append(elements, value(depth+1))
			}
			return "[" + strings.Join(elements, " , ") + "]"
		}
		return []string{"1", "-2.50", "1e2", "null", "true", `"{\"a\":9}"`, `""`, `"\u00e9\\"`, `"a"`}[random.IntN(9)]
	}
	for range proof.Sample(4000, 20_000) {
		data := []byte(value(0))
		for _, exact := range []bool{false, true} {
			got, complete := scanned(data, paths, exact, random)
			if want := expected(data, paths, exact); !complete || !slices.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%s: found %q, complete %v, want %q", data, got, complete, want)
			}
		}
	}
}

// Whatever comes, a scanner's memory is bounded by depth and the longest token.
func TestScannerIsBounded(t *testing.T) {
	for name, piece := range map[string]string{
		"depth": "[", "objects": `{"a":`, "a name": `{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`, "a value": `{"a":"x`, "values": `{"a":"x"} `, "a number": `{"a":1`,
	} {
		s := NewScanner(paths, true, func(int, string) {})
		s.Scan([]byte(piece))
		for range 10000 {
			s.Scan([]byte(strings.TrimPrefix(strings.Repeat(piece[max(len(piece)-1, 0):], 100), "")))
			if name == "depth" || name == "objects" || name == "values" {
				s.Scan([]byte(piece))
			}
		}
		if cap(s.open) > 2*maxDepth || cap(s.token) > 2*maxToken {
			t.Errorf("%s: %d brackets, and a token of %d bytes", name, cap(s.open), cap(s.token))
		}
	}
}

// What isn't finished is no value: 12 may be the beginning of 120.
func TestUnfinishedValuesAreNotFound(t *testing.T) {
	var got []string
	s := NewScanner([][]string{{"a"}}, true, func(_ int, text string) { got = append(got, text) })
	s.Scan([]byte(`{"a":12`))
	if got != nil {
		t.Errorf("got %q", got)
	}
	s.Scan([]byte(`0}`))
	if !slices.Equal(got, []string{"120"}) || !s.End() {
		t.Errorf("got %q", got)
	}
}

var sink int

func benchmarkBodies() map[string]string {
	members := strings.Repeat(`{"role":"user","content":"What is \"love\"? Baby don't hurt me, no more."},`, 500)
	return map[string]string{
		"chat":    `{"model":"x","messages":[` + strings.TrimSuffix(members, ",") + `],"max_tokens":100}`,
		"numbers": `{"x":[` + strings.TrimSuffix(strings.Repeat("1.5,", 10000), ",") + `],"max_tokens":1}`,
		"names":   `{` + strings.Repeat(`"max_tokens":1,`, 3000) + `"max_tokens":1}`,
		"escapes": `{"max_tokens":"` + strings.Repeat(`\u0061`, 9000) + `"}`,
		"nested":  strings.Repeat(`{"a":[`, 250) + "1" + strings.Repeat("]}", 250),
		"login":   `{"user":"alice@example.com","password":"correct horse battery staple","max_tokens":3}`,
	}
}

// BenchmarkJSON compares reading a field with decoding everything.
func BenchmarkJSON(b *testing.B) {
	f, _ := NewField(JSON + "max_tokens")
	for name, body := range benchmarkBodies() {
		b.Run(name+"/field", func(b *testing.B) {
			for b.Loop() {
				sink += len(Read([]Field{f}, IsJSON, nil, body, ""))
			}
		})
		b.Run(name+"/encoding-json", func(b *testing.B) {
			for b.Loop() {
				var v any
				if err := json.Unmarshal([]byte(body), &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
