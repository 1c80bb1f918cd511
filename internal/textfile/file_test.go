package textfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
)

// opened is a file whose value is its text, with its reported changes.
type opened struct {
	*File[string]
	t       *testing.T
	path    string
	reports []error
}

var errBad = errors.New("bad text")

func open(t *testing.T, optional bool) *opened {
	o := &opened{t: t, path: filepath.Join(t.TempDir(), "file")}
	o.write("first")
	var err error
	o.File, err = Open(Options[string]{
		Prefix: "test", Path: o.path, MaxSize: 100, Optional: optional,
		Parse: func(text []byte) (*string, error) {
			if string(text) == "bad" {
				return nil, errBad
			}
			value := string(text)
			return &value, nil
		},
		Changed: func(_ *string, err error) { o.reports = append(o.reports, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *opened) write(text string) {
	o.t.Helper()
	if err := os.WriteFile(o.path, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// want checks the value in force, the number of reported changes, and the cause of trouble.
func (o *opened) want(value string, reports int, trouble error) {
	o.t.Helper()
	if got := *o.Value(); got != value {
		o.t.Errorf("the value is %q, want %q", got, value)
	}
	if len(o.reports) != reports {
		o.t.Errorf("told %v, want %d", o.reports, reports)
	}
	switch current := o.Trouble(); {
	case trouble == nil && current != nil:
		o.t.Errorf("trouble with a good file: %v", current)
	case trouble != nil && (current == nil || !errors.Is(current.Err, trouble)):
		o.t.Errorf("the trouble is %v, want %v", current, trouble)
	}
}

func TestLookReadsWhatHasChanged(t *testing.T) {
	o := open(t, false)
	o.Look()
	o.want("first", 0, nil)
	o.write("the second")
	o.want("first", 0, nil)
	o.Look()
	o.want("the second", 1, nil)
	o.write("bad")
	o.Look()
	o.Look()
	o.want("the second", 2, errBad)
	if err := os.Remove(o.path); err != nil {
		t.Fatal(err)
	}
	o.Look()
	o.want("the second", 3, os.ErrNotExist)
	o.write("third")
	o.Reload()
	o.want("third", 4, nil)
}

func TestOptionalFileThatIsGoneIsEmpty(t *testing.T) {
	o := open(t, true)
	if err := os.Remove(o.path); err != nil {
		t.Fatal(err)
	}
	o.Look()
	o.Look()
	o.want("", 1, nil)
}

func TestFreshLooksOnceASecond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := open(t, false)
		time.Sleep(lookEvery)
		o.Fresh()
		o.write("the second")
		time.Sleep(lookEvery - time.Nanosecond)
		if got := *o.Fresh(); got != "first" {
			t.Errorf("looked too early, and found %q", got)
		}
		time.Sleep(time.Nanosecond)
		if got := *o.Fresh(); got != "the second" {
			t.Errorf("the value is %q a second later", got)
		}
	})
}
