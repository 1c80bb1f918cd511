package accesslog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// lineAt returns a line of a request that ended some seconds after start, with its duration.
func lineAt(seconds, took float64) string {
	return fmt.Sprintf(`{"ts":%f,"request":{"client_ip":"10.0.0.1","method":"GET","uri":"/%g"},"duration":%f,"status":200}`+"\n",
		float64(start.Unix())+seconds, seconds, took)
}

func writeLog(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns the paths of all requests, in their order, and the counts.
func read(t *testing.T, stdin io.Reader, paths ...string) (uris []string, counts Counts) {
	t.Helper()
	p, err := NewParser("")
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMerger(p, paths, stdin)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for {
		r, err := m.Next()
		if err == io.EOF {
			return uris, m.Counts
		}
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, r.URI)
	}
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	out := new(bytes.Buffer)
	w := gzip.NewWriter(out)
	_, err := io.WriteString(w, text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstandard(t *testing.T, text string) []byte {
	t.Helper()
	out := new(bytes.Buffer)
	w, err := zstd.NewWriter(out)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(w, text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Rotated logs are read in the order of their times, regardless of names and compression, and
// concurrent logs of two sites are merged.
func TestLogsAreMerged(t *testing.T) {
	oldest := writeLog(t, zipped(t, "garbage\n"+lineAt(0, 0)+lineAt(10, 0)))
	middle := writeLog(t, zstandard(t, lineAt(100, 0)+lineAt(300, 0)))
	newest := writeLog(t, []byte(lineAt(400, 0)+lineAt(500, 0)))
	beside := writeLog(t, []byte(lineAt(5, 0)+lineAt(350, 0)+strings.TrimSuffix(lineAt(450, 0), "\n")))
	got, counts := read(t, nil, newest, oldest, beside, middle)
	if want := []string{"/0", "/5", "/10", "/100", "/300", "/350", "/400", "/450", "/500"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if counts.Lines != 10 || counts.Records != 9 || counts.Bad != 1 || counts.Late != 0 {
		t.Errorf("counted %+v", counts)
	}
}

// A server writes a line when the request ends. A request counts from its arrival.
func TestRequestsComeInTheOrderOfTheirArrival(t *testing.T) {
	log := lineAt(0, 0) + lineAt(20, 0) + lineAt(30, 25) + lineAt(31, 0) + lineAt(100, 0) + lineAt(200, 199) + lineAt(201, 0)
	got, counts := read(t, strings.NewReader(log), standardInput)
	if want := []string{"/0", "/30", "/20", "/31", "/200", "/100", "/201"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if counts.Late != 1 {
		t.Errorf("%d came late, want the one that took 199 seconds", counts.Late)
	}
}

// Unreadable lines are counted, and the first ones are quoted with escaped control characters.
func TestGarbage(t *testing.T) {
	long := strings.Repeat("x", 2*maxLine)
	log := "\x1b[2Jevil\u202e\n\n" + long + "\n" + lineAt(0, 0) + `{"level":"info","msg":"started"}` + "\nlast"
	got, counts := read(t, nil, writeLog(t, []byte(log)))
	if !slices.Equal(got, []string{"/0"}) || counts.Lines != 6 || counts.Bad != 3 || counts.Others != 2 {
		t.Errorf("got %v, %+v", got, counts)
	}
	first := counts.Quoted[0]
	if first.Line != 1 || first.Text != `\x1b[2Jevil\u202e\n` || len(counts.Quoted[1].Text) > maxQuoted || !strings.Contains(counts.Quoted[1].Error, "longer") || counts.Quoted[2].Line != 6 {
		t.Errorf("quoted are %+v", counts.Quoted)
	}
}

// A log that ends in the middle of its compression, or is damaged from its beginning, is read as
// far as possible, and so are the others.
func TestTruncatedLog(t *testing.T) {
	whole, packed := zipped(t, lineAt(0, 0)+lineAt(1, 0)), zstandard(t, lineAt(0, 0)+lineAt(1, 0))
	for name, tt := range map[string]struct {
		log     []byte
		records int
		says    string
	}{
		"gzip without its end":   {whole[:len(whole)-6], 3, "is cut off"},
		"gzip of a few bytes":    {whole[:3], 1, "is cut off"},
		"gzip with a bad header": {append([]byte{0x1f, 0x8b, 77}, whole[3:]...), 1, "can't be read"},
		"zstd without its end":   {packed[:len(packed)-6], 1, "is cut off"},
		"zstd and garbage":       {append(packed[:4:4], "nonsense"...), 1, "can't be read"},
	} {
		got, counts := read(t, nil, writeLog(t, tt.log), writeLog(t, []byte(lineAt(2, 0))))
		if len(got) != tt.records || counts.Bad != 1 || len(counts.Quoted) != 1 || !strings.Contains(counts.Quoted[0].Error, tt.says) {
			t.Errorf("%s: got %v, %+v", name, got, counts)
		}
	}
}

func TestLogsThatAreMissing(t *testing.T) {
	p, err := NewParser("")
	if err != nil {
		t.Fatal(err)
	}
	log, folder := writeLog(t, []byte(lineAt(0, 0))), t.TempDir()
	link := filepath.Join(folder, "again.log")
	if err := os.Symlink(log, link); err != nil {
		t.Skip(err)
	}
	for says, paths := range map[string][]string{
		"no such file":                   {filepath.Join(folder, "none")},
		"is a folder: expected a log":    {folder},
		"the standard input can be":      {standardInput, log, standardInput},
		"expected each log once":         {log, log},
		"again.log twice: expected each": {log, link},
	} {
		if _, err := NewMerger(p, paths, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: got %v, want %q", paths, err, says)
		}
	}
}

func TestEmptyLog(t *testing.T) {
	if got, counts := read(t, strings.NewReader(""), writeLog(t, nil), standardInput); len(got) != 0 || counts.Lines != 0 || counts.Bad != 0 {
		t.Errorf("got %v, %+v", got, counts)
	}
}

// repeated is an endless text.
type repeated struct {
	text string
	at   int
}

// Read implements io.Reader.
func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		copied := copy(p[n:], r.text[r.at:])
		n, r.at = n+copied, (r.at+copied)%len(r.text)
	}
	return n, nil
}

// Files that are made to keep their reader busy are abandoned: after a million lines that are no
// requests, and if they decompress to far more than a log does. Earlier lines count, and so do
// other logs.
func TestBombsAreGivenUp(t *testing.T) {
	const request = `{"level":"info","ts":1700000000,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.1","method":"GET","host":"a","uri":"/"},"duration":0.1,"status":200}` + "\n"
	for name, bomb := range map[string]struct {
		text  string
		bytes int64
		says  string
		lines int64 // at most
	}{
		"blank lines":          {"\n", maxIdle + maxIdle/2, "are no requests", maxIdle + 10},
		"garbage":              {"x\n", 3 * maxIdle, "are no requests", maxIdle + 10},
		"blanks and a request": {request + strings.Repeat("\n", 1<<18), 3 * maxText, "times its size", 2 * maxText},
	} {
		t.Run(name, func(t *testing.T) {
			packed := new(bytes.Buffer)
			w := gzip.NewWriter(packed)
			if _, err := io.WriteString(w, request); err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(w, &repeated{text: bomb.text}, bomb.bytes); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			paths := []string{filepath.Join(folder, "bomb.gz"), filepath.Join(folder, "log")}
			for i, text := range []string{packed.String(), request} {
				if err := os.WriteFile(paths[i], []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			parser, err := NewParser("")
			if err != nil {
				t.Fatal(err)
			}
			m, err := NewMerger(parser, paths, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			for err == nil {
				_, err = m.Next()
			}
			quoted := slices.ContainsFunc(m.Quoted, func(l BadLine) bool { return strings.Contains(l.Error, bomb.says) })
			if err != io.EOF || m.Lines > bomb.lines || m.Records < 2 || !quoted && m.Bad <= maxBad {
				t.Errorf("%v after %d lines and %d requests, %d bad: %+v", err, m.Lines, m.Records, m.Bad, m.Quoted)
			}
		})
	}
}
