// Command performance renews the tables of figures in docs/performance.md and README.md. It
// measures, keeps the raw results in benchmarks/results, and writes the tables from them, between
// lines such as <!-- peers --> and <!-- end peers -->.
//
// A measurement that fails or lacks a line, as where a program isn't installed, leaves its tables
// as they are, and the command says why.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// A part is a measurement and the table of its figures.
type part struct {
	name    string
	folder  string // in which the command runs
	command []string
	table   func(result string) (string, error) // in Markdown
}

var parts = []part{
	{"peers", ".", []string{"go", "run", "./peers"}, peersTable},
	{"footprint", ".", []string{"go", "run", "./footprint"}, footprintTable},
	{"hotkey", ".", []string{"go", "test", "-run", "^$", "-bench", "Steady", "-benchtime", "1x", "./hotkey"}, hotkeyTable},
	{"fleet", ".", []string{"go", "run", "./fleet"}, fleetTable},
	{"memory", "..", []string{"go", "test", "-run", "^$", "-bench", "Memory", "-benchtime", "3x", "./internal/engine"}, memoryTable},
	{"scale", ".", []string{"go", "run", "./scale"}, scaleTable},
}

// documents are the files with tables, and the ways from their folders to the results.
var documents = map[string]string{"../docs/performance.md": "../benchmarks/results/", "../README.md": "benchmarks/results/"}

const results = "results"

func main() {
	names := lab.List{}
	for _, p := range parts {
		names = append(names, p.name)
	}
	only := names
	flag.Var(&only, "only", "parts to renew, separated by commas")
	kept := flag.Bool("kept", false, "write the tables of the newest results that are kept, without measuring")
	incumbent := flag.String("incumbent", "", "Caddy with mholt/caddy-ratelimit, for peers")
	flag.Parse()
	if *incumbent != "" {
		parts[0].command = append(parts[0].command, "-incumbent", *incumbent)
	}
	var errs []error
	for _, p := range parts {
		if !slices.Contains(only, p.name) {
			continue
		}
		if err := p.renew(*kept); err != nil {
			errs = append(errs, fmt.Errorf("%s: its table stays as it is: %w", p.name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (p part) renew(kept bool) error {
	file, text, err := p.newest()
	if !kept {
		file, text, err = p.measure()
	}
	if err != nil {
		return err
	}
	table, err := p.table(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for document, way := range documents {
		old, err := os.ReadFile(document)
		if err != nil {
			return err
		}
		text := replace(string(old), p.name, fmt.Sprintf("%s\n[Raw results](%s).\n", table, way+filepath.Base(file)))
		if err := os.WriteFile(document, []byte(text), 0o600); err != nil { //nolint:gosec // the documents are constants
			return err
		}
	}
	return nil
}

// measure runs the command and keeps what it prints. What is no result stays in a temporary file.
func (p part) measure() (file, text string, err error) {
	fmt.Println(p.name, "…")
	machine, err := exec.Command("./machine.sh").Output()
	if err != nil {
		return "", "", err
	}
	command := exec.Command(p.command[0], p.command[1:]...)
	command.Dir, command.Stderr = p.folder, os.Stderr
	out, failed := command.Output()
	text = string(machine) + "$ " + strings.Join(p.command, " ") + "\n" + string(out)
	file = filepath.Join(results, fmt.Sprintf("%s-%s.txt", p.name, time.Now().UTC().Format(time.DateOnly)))
	if _, err := p.table(text); failed != nil || err != nil {
		file = filepath.Join(os.TempDir(), filepath.Base(file))
	}
	return file, text, cmp.Or(failed, os.WriteFile(file, []byte(text), 0o600))
}

// newest returns the newest result that is kept.
func (p part) newest() (file, text string, err error) {
	files, err := filepath.Glob(filepath.Join(results, p.name+"-????-??-??.txt"))
	if err != nil || len(files) == 0 {
		return "", "", fmt.Errorf("there is no result: %w", cmp.Or(err, os.ErrNotExist))
	}
	bytes, err := os.ReadFile(slices.Max(files))
	return slices.Max(files), string(bytes), err
}

// replace replaces what is between the marks of a name, if the document has them.
func replace(document, name, text string) string {
	begin, end := fmt.Sprintf("<!-- %s -->\n", name), fmt.Sprintf("<!-- end %s -->\n", name)
	before, rest, found := strings.Cut(document, begin)
	_, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		return document
	}
	return before + begin + "\n" + text + "\n" + end + after
}

// find returns the groups of the last line that matches a pattern.
func find(result, pattern string) ([]string, error) {
	lines := regexp.MustCompile(`(?m)^`+pattern+`.*$`).FindAllStringSubmatch(result, -1)
	if len(lines) == 0 {
		return nil, fmt.Errorf("there is no line of the form %s", pattern)
	}
	last := lines[len(lines)-1]
	if strings.Contains(last[0], "VOID") {
		return nil, fmt.Errorf("a measurement failed: %s", last[0])
	}
	return last[1:], nil
}
