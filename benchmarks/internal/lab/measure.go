package lab

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
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
