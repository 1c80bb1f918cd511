package rules

import (
	"fmt"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// File is a file of rules. It may be used from any number of goroutines, and need not be closed.
type File = textfile.File[Set]

// Open reads a file. A missing file has no rules until it is created. Call [textfile.File.Look] to
// read the file again after it changes. Then changed is called with the rules in force, and an
// error if they are still the previous ones.
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

// List returns the rules of a file, in its order, including those that have ended.
func List(path string) ([]Rule, error) {
	text, _, err := textfile.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	rules, err := parseAll(text)
	if err != nil {
		return nil, fmt.Errorf("rules: %s: %w", path, err)
	}
	return rules, nil
}
