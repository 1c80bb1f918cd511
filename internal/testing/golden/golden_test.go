package golden

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestErrorsAreInTheirBlocks(t *testing.T) {
	cases, err := readErrorsOf(t, `in {} > rate_limit

# no number
	max_keys many
error: max_keys: got "many"

in http://example.com > rate_limit > zone login

# two lines
	limit {
		x
	}

	per ip
error: a: "b"

in nothing

# bare
	x
error: y
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []ErrorCase{
		{"no number", "{\n\trate_limit {\n\t\tmax_keys many\n\t}\n}\n", `max_keys: got "many"`},
		{"two lines", "http://example.com {\n\trate_limit {\n\t\tzone login {\n\t\t\tlimit {\n\t\t\t\tx\n\t\t\t}\n\n\t\t\tper ip\n\t\t}\n\t}\n}\n", `a: "b"`},
		{"bare", "x\n", "y"},
	}
	if !slices.Equal(cases, want) {
		t.Errorf("got %q, want %q", cases, want)
	}
}

func TestFilesOfErrorsThatAreWrong(t *testing.T) {
	for _, text := range []string{"", "in nothing\n", "# a\n\tx\n", "error: x\n", "# a\n\tx\nerror:  \n", "# a\nx\nerror: y\n"} {
		if cases, err := readErrorsOf(t, text); err == nil {
			t.Errorf("%q is read as %q", text, cases)
		}
	}
}

func readErrorsOf(t *testing.T, text string) ([]ErrorCase, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "errors.txt")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return ReadErrors(path)
}
