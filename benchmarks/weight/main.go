//go:build unix

// Command weight measures what a commit weighs, and prints it as a line of results/weight.txt: beside plain Caddy, in
// one run. What can't be measured, as by an older commit, is "-".
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// columns are those of the file, in order.
var columns = []string{
	"commit", "date", "binary-MiB", "packages", "lines", "heap-B/key", "heap-B/blocked-key", "allocs/admitted",
	"allocs/refused", "cpu-one-key", "cpu-rotation", "cpu-new-keys", "cpu-refused", "seeds",
}

func main() {
	root := flag.String("root", "", "working tree to measure; this one if empty")
	repeats := flag.Int("repeats", 12, "rounds of the measurement of processor time")
	to := flag.String("append", "", "file to which the line is appended")
	flag.Parse()
	lab.Measure("", func(ctx context.Context, scratch string) error {
		if *root == "" {
			var err error
			if *root, err = lab.Root(ctx); err != nil {
				return err
			}
		}
		w := weighing{ctx: ctx, root: *root, scratch: scratch, repeats: *repeats, found: make(map[string]string)}
		w.weigh()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		cells := make([]string, len(columns))
		for i, column := range columns {
			if cells[i] = w.found[column]; cells[i] == "" {
				cells[i] = "-"
			}
		}
		line := strings.Join(cells, "\t") + "\n"
		fmt.Print(strings.Join(columns, "\t"), "\n", line)
		if *to == "" {
			return nil
		}
		file, err := os.OpenFile(*to, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = file.WriteString(line)
		return err
	})
}

// weighing is the measurement of one commit.
type weighing struct {
	ctx           context.Context
	root, scratch string
	repeats       int
	found         map[string]string // by column
}

func (w *weighing) weigh() {
	if commit, date, ok := strings.Cut(w.output("git", "log", "-1", "--format=%h %cs"), " "); ok {
		w.found["commit"], w.found["date"] = commit, date
	}
	os.Setenv("CGO_ENABLED", "0") // for builds, as releases are built
	w.program()
	w.lines()
	w.seeds()
	heap := w.output("go", "test", "-run", "^$", "-bench", "Memory/sliding", "-benchtime", "1x", "./internal/engine")
	w.keep("heap-B/key", heap, `blocked=false\S*\s.*?([\d.]+) heap-B/key`)
	w.keep("heap-B/blocked-key", heap, `blocked=true\S*\s.*?([\d.]+) heap-B/key`)
	handler := w.output("go", "test", "-run", "^$", "-bench", "ServeHTTP/(warm|blocked)/keys=1$", "-benchtime", "20000x", "./internal/enforce")
	w.keep("allocs/admitted", handler, `warm/keys=1\S*\s.*?([\d.]+) allocs/op`)
	w.keep("allocs/refused", handler, `blocked/keys=1\S*\s.*?([\d.]+) allocs/op`)
}

// keep notes what a pattern finds.
func (w *weighing) keep(column, text, pattern string) {
	if found := regexp.MustCompile(`(?m)` + pattern).FindStringSubmatch(text); found != nil {
		w.found[column] = found[1]
	}
}

// output returns what a command prints in the root. What fails is told, and leaves its columns empty.
func (w *weighing) output(name string, args ...string) string {
	return w.outputIn(w.root, name, args...)
}

func (w *weighing) outputIn(folder, name string, args ...string) string {
	command := exec.CommandContext(w.ctx, name, args...)
	command.Dir, command.Stderr = folder, os.Stderr
	out, err := command.Output()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n", command.Args, err)
		return ""
	}
	return strings.TrimSpace(string(out))
}

// program compares the program with plain Caddy: its size, its packages and, when it runs, its processor time.
func (w *weighing) program() {
	var sizes, packages [2]int
	caddy := filepath.Join(w.scratch, "caddy")
	for i, module := range []string{"", lab.Module} {
		args, err := lab.Program(w.root, w.scratch, module)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		packages[i] = len(strings.Fields(w.output("go", append([]string{"list", "-deps"}, args...)...)))
		w.output("go", append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", caddy}, args...)...)
		info, err := os.Stat(caddy)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		sizes[i] = int(info.Size())
	}
	w.found["packages"] = strconv.Itoa(packages[1] - packages[0])
	w.found["binary-MiB"] = fmt.Sprintf("%.2f", float64(sizes[1]-sizes[0])/(1<<20))
	peers := w.outputIn("", "go", "run", "./peers", "-servers", "caddy", "-caddy", caddy, "-repeats", strconv.Itoa(w.repeats), "-period", "500ms")
	peers = regexp.MustCompile(`(?m)^.*VOID.*$`).ReplaceAllString(peers, "")
	for _, name := range []string{"one-key", "rotation", "new-keys", "refused"} {
		w.keep("cpu-"+name, peers, `^caddy +`+name+` .* µs +([\d.]+) \(`)
	}
}

// lines counts lines of the product's Go that are neither blank nor comments.
func (w *weighing) lines() {
	n := 0
	for _, name := range strings.Fields(w.output("git", "ls-files", "*.go")) {
		if strings.HasSuffix(name, "_test.go") || regexp.MustCompile(`(^|/)(benchmarks|examples|testing|\w+test|proof)/`).MatchString(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(w.root, name))
		if err != nil {
			continue // it was removed
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				n++
			}
		}
	}
	w.found["lines"] = strconv.Itoa(n)
}

// seeds adds up the seeds of simulations of the last make proof.
func (w *weighing) seeds() {
	text, n := w.output("cat", "proof/figures.txt"), 0
	for _, found := range regexp.MustCompile(`(?m)\t(\d+) seeds`).FindAllStringSubmatch(text, -1) {
		seeds, _ := strconv.Atoi(found[1])
		n += seeds
	}
	w.found["seeds"] = strconv.Itoa(n)
}
