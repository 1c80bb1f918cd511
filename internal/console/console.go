package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Connect returns the service for a command's flags.
type Connect func(*cobra.Command) (operator.Service, error)

// Commands returns the commands for a service.
func Commands(connect Connect) []*cobra.Command { return console{connect, time.Now, LookOf}.all() }

// console makes commands.
type console struct {
	connect Connect
	now     func() time.Time
	look    func(io.Writer) wording.Look
}

func (c console) all() []*cobra.Command {
	all := []*cobra.Command{
		c.status(), c.zones(), c.top(), c.blocked(), c.refusals(), c.explain(), c.charge(), c.bans(),
		c.history(), c.usage(), c.audit(), c.export(), c.notify(),
	}
	for _, a := range actions {
		all = append(all, c.act(a))
	}
	return all
}

// errNothing ends a command that has found nothing, and has printed that.
var errNothing = errors.New("nothing was found")

// session is a running command.
type session struct {
	operator.Service
	ctx  context.Context
	out  io.Writer
	json bool // print JSON
	look wording.Look
	now  time.Time
}

// command adds the common flags and the function to a command.
func (c console) command(cmd *cobra.Command, run func(*session, []string) error) *cobra.Command {
	asJSON := cmd.Flags().Bool("json", false, "Print JSON")
	cmd.Args = Usage(cmd.Args)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		service, err := c.connect(cmd)
		if err != nil {
			return err
		}
		ctx := cmp.Or(cmd.Context(), context.Background())
		err = run(&session{service, ctx, cmd.OutOrStdout(), *asJSON, c.look(cmd.OutOrStdout()), c.now()}, args)
		if errors.Is(err, errNothing) {
			cmd.SilenceErrors = true
		} else if err != nil {
			err = errors.New(printable(err.Error())) // it may quote a client's text
		}
		return err
	}
	return cmd
}

// Usage returns a check of arguments whose error shows the usage of the command.
func Usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return fmt.Errorf("got %q: expected caddy %s", args,
				strings.TrimPrefix(strings.TrimSuffix(cmd.UseLine(), " [flags]"), "caddy "))
		}
		return nil
	}
}

// usualWidth is the width of a terminal that doesn't tell its own.
const usualWidth = 80

// LookOf returns the look of tables on an output. The zero value is for an output that is no terminal.
func LookOf(out io.Writer) wording.Look {
	if !isTerminal(out) {
		return wording.Look{}
	}
	width, _, err := term.GetSize(int(out.(*os.File).Fd()))
	if err != nil || width <= 0 {
		width = usualWidth
	}
	return wording.Look{Colored: os.Getenv("NO_COLOR") == "", Width: width}
}

// isTerminal reports whether an output is a terminal.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}

// printf prints a line. The arguments of %s and %v must be printable.
func (s *session) printf(format string, args ...any) {
	fmt.Fprintln(s.out, s.look.Wrapped(fmt.Sprintf(format, args...)))
}

// mark prints a line in a style.
func (s *session) mark(style wording.Style, text string) {
	fmt.Fprintln(s.out, style.In(s.look.Wrapped(printable(text)), s.look))
}

// report prints a result as JSON, or makes show print it. If nothing was found, the text nothing says
// so, unless JSON shows it.
func (s *session) report(result any, found bool, nothing string, show func()) error {
	switch {
	case s.json:
		if err := wording.WriteJSON(s.out, result); err != nil {
			return err
		}
	case !found:
		s.printf("%s", printable(nothing))
	default:
		show()
	}
	if !found {
		return errNothing
	}
	return nil
}

// list prints a list, as JSON or as a table.
func list[T any](s *session, values []T, columns []column[T], nothing string) error {
	if values == nil {
		values = []T{}
	}
	return s.report(values, len(values) > 0 || nothing == "", nothing,
		func() { writeTable(s.out, s.look, columns, values) })
}
