package tally_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

const commandReference = "docs/commands.md"

const commandReferenceHead = `# Commands

The usage and the flags of each command; ` + "`--help`" + ` prints more, with examples.
[Operators](operators.md) explains the commands. With ` + "`--json`" + ` a command that shows something
prints JSON.

[Clients](operators.md#how-clients-are-named) have several names. Every command that asks a running
Caddy has the flags ` + "`--address`, `--config` and `--adapter`" + `, which say where its admin endpoint
is.

<!-- Written from the commands by make reference. Do not edit it here. -->
`

// TestCommandReference compares docs/commands.md with the commands.
func TestCommandReference(t *testing.T) {
	want := writeCommandReference(t)
	if *updateReference {
		if err := os.WriteFile(commandReference, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := readText(t, commandReference); got != string(want) {
		t.Errorf("%s is not what the commands say: run make reference and look at the difference", commandReference)
	}
}

func writeCommandReference(t *testing.T) []byte {
	t.Helper()
	out := bytes.NewBufferString(commandReferenceHead)
	var write func(cmd *cobra.Command)
	write = func(cmd *cobra.Command) {
		help := new(bytes.Buffer)
		cmd.SetOut(help)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(help.String(), caddy.AppDataDir(), "DATA") // differs on each machine
		if cmd.Name() != "rate-limit" {
			fmt.Fprintf(out, "\n## `%s`\n\n```text\n%s\n```\n", cmd.CommandPath(), usage(text))
		}
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" {
				write(sub)
			}
		}
	}
	write(rateLimitCommand())
	return out.Bytes()
}

var (
	jsonFlag   = regexp.MustCompile(`(?m)^ +--json +Print JSON\n?`)
	emptyLabel = regexp.MustCompile(`Flags:\n\z`)
	examples   = regexp.MustCompile(`(?s)Examples:\n.*?(?:\n\n|\z)`)
)

// usage returns the part of a help text from the usage line to the command's own flags, without
// examples and the common flag.
func usage(help string) string {
	_, help, _ = strings.Cut(help, "Usage:\n")
	help, _, _ = strings.Cut(help, "Global Flags:\n")
	help, _, _ = strings.Cut(help, "\nUse \"caddy")
	help = jsonFlag.ReplaceAllString(strings.TrimSpace(help)+"\n", "")
	help = examples.ReplaceAllString(help, "")
	help = strings.ReplaceAll(emptyLabel.ReplaceAllString(help, ""), " [flags]\n", "\n")
	return strings.TrimSpace(help)
}

// rateLimitCommand returns the command as registered with Caddy.
func rateLimitCommand() *cobra.Command {
	registered := caddycmd.Commands()["rate-limit"]
	root := &cobra.Command{Use: "caddy"}
	cmd := &cobra.Command{Use: registered.Name, Short: registered.Short, Long: registered.Long}
	root.AddCommand(cmd)
	registered.CobraFunc(cmd)
	return cmd
}

// The operators' page names every command in its table.
func TestOperatorsPageNamesEveryCommand(t *testing.T) {
	page := readText(t, "docs/operators.md")
	for _, cmd := range rateLimitCommand().Commands() {
		if cmd.Name() != "help" && !hasEntry(page, cmd.Name()) {
			t.Errorf("docs/operators.md: expected a row for `%s` in the table of commands", cmd.Name())
		}
	}
}

// What pages tell readers to type names commands and flags that exist, and each flag is explained on a page beside
// the list of all.
func TestCommandsOfPages(t *testing.T) {
	explained, typed := new(strings.Builder), 0
	for _, page := range markdownFiles(t) {
		if page == commandReference || strings.HasPrefix(page, "docs/decisions/") {
			continue
		}
		text := readText(t, page)
		explained.WriteString(text)
		for _, found := range typedCommand.FindAllStringSubmatch(text, -1) {
			typed++
			cmd, rest, err := rateLimitCommand().Find(wordsOf(found[1]))
			if err != nil {
				t.Errorf("%s: %s: %v", page, found[0], err)
				continue
			}
			for _, word := range rest {
				name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
				if flag := cmd.Flag(name); strings.HasPrefix(word, "--") && flag == nil {
					t.Errorf("%s: %s: there is no flag --%s", page, found[0], name)
				}
			}
		}
	}
	if typed < 50 {
		t.Errorf("the pages have %d commands", typed)
	}
	for _, flag := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(readText(t, commandReference), -1) {
		if flag != "--help" && !regexp.MustCompile(regexp.QuoteMeta(flag)+`\b`).MatchString(explained.String()) {
			t.Errorf("no page but %s explains %s", commandReference, flag)
		}
	}
}

// typedCommand finds a command on a page, up to the end of the line, of the code or of the pipe.
var typedCommand = regexp.MustCompile("caddy rate-limit ([^`\\n|>;)]+)")

// wordsOf returns the words of a command without quotes, comments and what is to be replaced.
func wordsOf(text string) (words []string) {
	for _, word := range regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s"']+`).FindAllString(text, -1) {
		if word == "#" {
			break
		}
		words = append(words, strings.Trim(word, `'"`))
	}
	return words
}
