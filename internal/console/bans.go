package console

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// bans returns `caddy rate-limit bans`.
func (c console) bans() *cobra.Command {
	var in imported
	cmd := &cobra.Command{
		Use:   "bans",
		Short: "Lists who is banned, allowed or raised, or bans those that a file lists",
		Long: `Lists who is banned, allowed or raised, by an operator or for what they did.

With --import it bans those that a file lists, or the standard input if the file
is "-": one client per line, or lines as in the rules file (ban 203.0.113.7
until 2026-12-01 # scraper). Comments begin with #. A bad line is named, and
then nothing is changed.

Lines that allow or raise clients need --allow, and networks wider than /8
(IPv6: /19) need --force: with one of them a list from elsewhere opens or closes
the site.`,
		Example: `  caddy rate-limit bans
  caddy rate-limit bans --import blocklist.txt --for 7d --reason blocklist`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&in.file, "import", "", `Ban those that this file lists ("-": the standard input)`)
	cmd.Flags().StringVar(&in.held, "for", "",
		"With --import: how long, where a line doesn't say it: 24h, 7d (default: until it is lifted)")
	cmd.Flags().StringVar(&in.reason, "reason", "", "With --import: why, where a line doesn't say it")
	cmd.Flags().BoolVar(&in.trust.Allow, "allow", false, "With --import: take lines that allow or raise clients, too")
	cmd.Flags().BoolVar(&in.trust.Wide, "force", false, "With --import: take networks wider than /8 (IPv6: /19) and trusted proxies, too")
	input := cmd.InOrStdin
	return c.command(cmd, func(s *session, _ []string) error {
		switch {
		case in.file != "":
			return s.importFile(&in, input())
		case in != imported{}:
			return fmt.Errorf("--for, --reason, --allow and --force are for --import; write caddy rate-limit ban <client> for a single one")
		}
		bans, err := s.Bans(s.ctx)
		if err != nil {
			return err
		}
		if status, err := s.Status(s.ctx); err == nil && !s.json && status.Conduct != nil &&
			status.Conduct.Missing != "" {
			s.mark(yellow, s.describeConduct(status.Conduct))
		}
		return list(s, bans, []column[operator.Rule]{
			{"ACTION", func(b operator.Rule) cell {
				return cell{Text: strings.TrimSpace(string(b.Action) + " " + b.Factor), Style: actionStyle[b.Action]}
			}},
			{"TAG", func(b operator.Rule) cell { return text(b.Tag) }},
			{"CLIENT", func(b operator.Rule) cell { return named(b.Client, b.Text) }},
			{"UNTIL", func(b operator.Rule) cell {
				if b.Until == nil {
					return text("no end")
				}
				return text(moment(*b.Until, s.now))
			}},
			{"BY", func(b operator.Rule) cell { return text(b.By) }},
			{"ZONE", func(b operator.Rule) cell { return text(b.Zone) }},
			{"REASON", func(b operator.Rule) cell { return text(b.Reason) }},
		}, "Nobody is banned, and nobody is allowed or raised by an operator.")
	})
}

var actionStyle = map[operator.Action]wording.Style{operator.Ban: red, operator.Allow: green, operator.Raise: yellow}

// maxImport is the size of the largest file to import, in bytes.
const maxImport = 64 << 20

// imported is a file to import, with its flags.
type imported struct {
	file, held, reason string
	trust              rules.Trust
}

// importFile makes the service add the rules of a file.
func (s *session) importFile(in *imported, stdin io.Reader) error {
	text, err := readImport(in.file, stdin)
	if err != nil {
		return err
	}
	o := operator.Command{Reason: in.reason}
	if err := setFor(&o, in.held); err != nil {
		return err
	}
	ending := ""
	if o.For != 0 {
		ending = " until " + s.now.Add(o.For.Duration()).UTC().Format("2006-01-02T15:04:05Z")
	}
	lines, err := in.rules(text, ending)
	if err != nil {
		return fmt.Errorf("%s: %w", in.file, err)
	}
	return s.importLines(lines, in.trust)
}

func readImport(file string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		from = opened
	}
	text, err := io.ReadAll(io.LimitReader(from, maxImport+1))
	if err == nil && len(text) > maxImport {
		err = fmt.Errorf("%s: has more than %d bytes", file, maxImport)
	}
	return text, err
}

// rules returns the checked rules of an imported text. A line with only a client bans the
// client.
func (in *imported) rules(text []byte, ending string) (lines []string, err error) {
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		n++
		line, comment, commented := strings.Cut(strings.TrimSpace(line), "#")
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if !commented {
			comment = in.reason
		}
		if !slices.Contains([]string{"ban", "allow", "raise"}, words[0]) {
			line = "ban " + line
		}
		if !strings.Contains(line, " until ") {
			line += ending
		}
		if comment = strings.TrimSpace(comment); comment != "" {
			line += " # " + comment
		}
		rule, err := rules.ParseRule(line)
		if err == nil {
			err = in.trust.Check(rule)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// importLines makes the service add rules, as many at once as a request may have.
func (s *session) importLines(lines []string, trust rules.Trust) error {
	total := operator.Done{}
	for len(lines) > 0 {
		n := 0
		for size := 0; n < len(lines) && n < operator.MaxItems && size < operator.MaxBody/2; n++ {
			size += len(lines[n]) + len(`"",`)
		}
		done, err := s.Import(s.ctx, operator.Import{Rules: lines[:n], Allow: trust.Allow, Force: trust.Wide})
		if err != nil {
			if total.Changed > 0 {
				return fmt.Errorf("%s were imported, then: %w", wording.Counted(total.Changed, "rule"), err)
			}
			return err
		}
		total.Changed += done.Changed
		total.Notes, total.In = done.Notes, done.In
		lines = lines[n:]
	}
	return s.report(total, total.Changed > 0 || s.json, "There is nothing to import.", func() {
		s.printf("Imported %s%s.", wording.Counted(total.Changed, "rule"), holds(total.In))
		s.showNotes(total.Notes)
	})
}
