package rules

import (
	"fmt"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// File is a file of statements. It may be used from any number of goroutines, and need not be
// closed.
type File = textfile.File[Set]

// Open reads a file. One that does not exist has no statements, until it does. Whoever uses
// it calls [textfile.File.Look] to have it read again when it has changed; changed is then
// called with the statements in force, and why they are still the old ones, or nil.
func Open(path string, changed func(*Set, error)) (*File, error) {
	return textfile.Open(textfile.Options[Set]{
		Prefix:   "rules",
		Path:     path,
		MaxSize:  maxFile,
		Parse:    Parse,
		Optional: true,
		Changed:  changed,
	})
}

// List returns the statements of a file, in its order, those that have ended among them.
func List(path string) ([]Statement, error) {
	text, _, err := textfile.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	statements, err := parseAll(text)
	if err != nil {
		return nil, fmt.Errorf("rules: %s: %w", path, err)
	}
	return statements, nil
}
