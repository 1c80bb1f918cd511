//go:build unix

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Part is one of the measurements of a program.
type Part struct {
	Name    string
	Measure func(context.Context) error
}

// Measure makes those of a program's measurements whose names are in only,
// separated by commas, or all if it is empty. It ends with the first that fails, and
// when the program is told to stop or nobody reads any more what it prints. parts is
// given a folder for what they need, which is made in dir, or where temporary files are
// if that is empty, and is removed in the end.
func Measure(dir, only string, parts func(scratch string) []Part) error {
	scratch, err := os.MkdirTemp(dir, "tally-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	for _, part := range parts(scratch) {
		if only != "" && !slices.Contains(strings.Split(only, ","), part.Name) {
			continue
		}
		load, _ := os.ReadFile("/proc/loadavg") // where there is one
		fmt.Printf("\n== %s; load of the machine before: %s\n", part.Name, strings.TrimSpace(string(load)))
		if err := part.Measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.Name, err)
		}
	}
	return nil
}

// List is a flag of words separated by commas.
type List []string

func (l *List) String() string { return strings.Join(*l, ",") }

// Set implements [flag.Value].
func (l *List) Set(text string) error {
	*l = strings.Split(text, ",")
	return nil
}

// Go runs the go command in a folder and returns its output.
func Go(ctx context.Context, folder string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = folder
	out, err := command.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		err = fmt.Errorf("go %s: %s", args[0], strings.Join(lines[max(0, len(lines)-2):], "; "))
	}
	return strings.TrimSpace(string(out)), err
}

// CPU returns the processor time that this process has taken.
func CPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Turns returns the order in which so many sides are measured in a round: forth and back.
func Turns(sides, round int) []int {
	turns := make([]int, sides)
	for i := range turns {
		turns[i] = i
	}
	if round%2 == 1 {
		slices.Reverse(turns)
	}
	return turns
}
