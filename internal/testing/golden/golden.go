// Package golden reads the files with the JSON that a Caddyfile is adapted to, or the error that it
// causes. It is for tests.
//
// A file *.caddyfiletest is a Caddyfile, a line of ten dashes, and the adapted JSON.
//
// A file of errors is a list of cases: a name, the inside of a Caddyfile, indented by a tab, and a
// part of the error. A line that begins with "in" names the blocks around the following cases, from
// the outside in; {} is the global options block:
//
//	in http://example.com > rate_limit > zone login
//
//	# no amount
//		limit 1m
//	error: zone "login": limit: …
package golden

import (
	"fmt"
	"os"
	"strings"
)

// separator divides a Caddyfile from its adapted JSON.
const separator = "\n----------\n"

// Read returns the Caddyfile and the adapted JSON of a golden file.
func Read(path string) (caddyfile, adapted string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	caddyfile, adapted, ok := strings.Cut(unixLines(content), separator)
	if !ok || strings.TrimSpace(adapted) == "" {
		return "", "", fmt.Errorf("%s has no line of ten dashes with something below it", path)
	}
	return caddyfile + "\n", strings.TrimSuffix(adapted, "\n"), nil
}

// Write writes a golden file.
func Write(path, caddyfile, adapted string) error {
	return os.WriteFile(path, []byte(strings.TrimSuffix(caddyfile, "\n")+separator+adapted+"\n"), 0o644)
}

// ErrorCase is a Caddyfile with a mistake in it.
type ErrorCase struct {
	Name      string
	Caddyfile string
	Error     string // a part of the error that Caddy reports
}

// ReadErrors returns the cases of a file of errors.
func ReadErrors(path string) ([]ErrorCase, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var cases []ErrorCase
	var blocks, inside []string
	name := ""
	for i, line := range strings.Split(unixLines(content), "\n") {
		switch around, isFrame := strings.CutPrefix(line, "in "); {
		case isFrame && around == "nothing":
			blocks = nil
		case isFrame:
			blocks = strings.Split(around, " > ")
		case strings.HasPrefix(line, "# "):
			name, inside = line[2:], nil
		case strings.HasPrefix(line, "error: "):
			if name == "" || strings.TrimSpace(line[7:]) == "" {
				return nil, fmt.Errorf("%s:%d: an error without a case or a text", path, i+1)
			}
			cases = append(cases, ErrorCase{name, wrap(blocks, inside), line[7:]})
			name = ""
		case line == "" || strings.HasPrefix(line, "\t"):
			inside = append(inside, strings.TrimPrefix(line, "\t"))
		default:
			return nil, fmt.Errorf("%s:%d: expected a case, an error, or blocks to be in, got %q", path, i+1, line)
		}
	}
	if name != "" || len(cases) == 0 {
		return nil, fmt.Errorf("%s: the case %q has no error", path, name)
	}
	return cases, nil
}

// wrap puts lines into blocks.
func wrap(blocks, inside []string) string {
	var b strings.Builder
	for depth, block := range blocks {
		if block == "{}" {
			block = ""
		} else {
			block += " "
		}
		b.WriteString(strings.Repeat("\t", depth) + block + "{\n")
	}
	for _, line := range inside {
		if line != "" {
			line = strings.Repeat("\t", len(blocks)) + line
		}
		b.WriteString(line + "\n")
	}
	for depth := len(blocks) - 1; depth >= 0; depth-- {
		b.WriteString(strings.Repeat("\t", depth) + "}\n")
	}
	return b.String()
}

func unixLines(content []byte) string { return strings.ReplaceAll(string(content), "\r\n", "\n") }
