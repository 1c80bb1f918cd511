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

// Measure runs a program's measurement. It ends when the program is told to stop, or nobody reads any
// more what it prints. scratch is a new folder in dir, or where temporary files are if that is empty,
// and is removed in the end.
func Measure(dir string, measure func(ctx context.Context, scratch string) error) {
	scratch, err := os.MkdirTemp(dir, "tally-")
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
		load, _ := os.ReadFile("/proc/loadavg") // where there is one
		fmt.Printf("load of the machine before: %s\n", strings.TrimSpace(string(load)))
		err = measure(ctx, scratch)
		stop()
		err = errors.Join(err, os.RemoveAll(scratch))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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

// Median returns the middle value, or the higher one of two. There must be one.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Spread returns the median of values, and in parentheses the least and the largest.
func Spread(values []float64) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", Median(values), slices.Min(values), slices.Max(values))
}

// Micros returns a time in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
