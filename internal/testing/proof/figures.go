package proof

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Figure logs what a test found out, and appends it to the file named by PROOF_FIGURES, which docs/proof.md shows:
// "make proof" sets it.
func Figure(t testing.TB, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	t.Log(text)
	path := os.Getenv("PROOF_FIGURES")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0) //nolint:gosec // the file that make proof has made
	if err == nil {
		_, err = fmt.Fprintf(f, "%s\t%s\n", t.Name(), strings.ReplaceAll(text, "\n", " "))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Errorf("PROOF_FIGURES: %v", err)
	}
}
