package console

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "1s", time.Second: "1s", 59*time.Second + 1: "1m", 90 * time.Second: "1m 30s", 10 * time.Minute: "10m", 10*time.Minute + 59*time.Second: "10m",
		time.Hour: "1h", 90 * time.Minute: "1h 30m", 25 * time.Hour: "1d 1h", 400 * 24 * time.Hour: "400d", math.MaxInt64: "106751d",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{4 * time.Minute: "in 4m", 0: "now", -time.Millisecond: "now", -time.Hour: "1h ago"} {
		if got := fromNow(noon.Add(d), noon); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestMoments(t *testing.T) {
	for at, want := range map[time.Time]string{
		noon.Add(time.Hour):     noon.Add(time.Hour).Local().Format("2006-01-02 15:04:05") + " (in 1h)",
		noon.AddDate(900, 0, 0): noon.AddDate(900, 0, 0).Local().Format("2006-01-02 15:04:05"),
	} {
		if got := moment(at, noon); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestTables(t *testing.T) {
	type row struct {
		name string
		n    int64
		none string
	}
	columns := []column[row]{
		{"NAME", func(r row) cell { return text(r.name) }},
		{"NONE", func(r row) cell { return text(r.none) }},
		{"N", func(r row) cell { return alarm(r.n) }},
		{"LAST", func(r row) cell { return text(r.name) }},
	}
	out := new(bytes.Buffer)
	writeTable(out, false, columns, []row{{"ü", 1234, ""}, {"a\nb", 0, ""}, {strings.Repeat("x", 100), 5, ""}})
	x := strings.Repeat("x", maxCell-1) + "…"
	want := "NAME" + strings.Repeat(" ", maxCell-4) + "      N  LAST\n" +
		"ü" + strings.Repeat(" ", maxCell-1) + "  1,234  ü\n" +
		`a\nb` + strings.Repeat(" ", maxCell-4) + `      0  a\nb` + "\n" +
		x + "      5  " + strings.Repeat("x", 100) + "\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	out.Reset()
	writeTable(out, true, columns[2:3], []row{{"", 7, ""}})
	if out.String() != "\x1b[1mN\x1b[0m\n\x1b[31m7\x1b[0m\n" {
		t.Errorf("got %q", out)
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("\x1b[2J\u202e\xff𝄞")
	f.Fuzz(func(t *testing.T, s string) {
		if got := printable(s); got != allPrintable(got) {
			t.Errorf("got %q", got)
		}
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var want, got string
		shown := wording.PrintableJSON(encoded)
		if json.Unmarshal(encoded, &want) != nil || json.Unmarshal(shown, &got) != nil || want != got || string(shown) != allPrintable(string(shown)) {
			t.Errorf("got %q of %q", shown, encoded)
		}
	})
}
