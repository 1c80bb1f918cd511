package proposal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// shadowLine is the line that keeps a proposed zone from refusing.
const shadowLine = "shadow # until caddy rate-limit init --enforce"

var shadowLines = regexp.MustCompile(`(?m)^[ \t]*shadow[ \t]*#[ \t]*until caddy rate-limit init --enforce[ \t]*\r?\n`)

var (
	otherShadow = regexp.MustCompile(`^[ \t]*(?:limit .*[ \t])?shadow[ \t]*(?:#.*)?\r?$`)
	zoneStart   = regexp.MustCompile(`^[ \t]*zone[ \t]+(\S+)[ \t]*\{`)
)

// otherShadows returns the zones that other lines keep from refusing, each with its line: login (line 5).
func otherShadows(text []byte) (zones []string) {
	zone := "a zone"
	for i, line := range strings.Split(string(text), "\n") {
		if found := zoneStart.FindStringSubmatch(line); found != nil {
			zone = found[1]
		} else if strings.TrimLeft(line, " \t\r") == line && line != "" { // another block, such as a snippet
			zone = "a zone"
		}
		if otherShadow.MatchString(line) {
			zones = append(zones, fmt.Sprintf("%s (line %d)", zone, i+1))
		}
	}
	return zones
}

// directive returns the site's zones as a directive.
func (s *site) directive(indent string) string {
	lines := []string{names.Handler + " {"}
	for _, z := range s.zones {
		lines = append(append(lines, comment("\t", z.why)...), "\tzone "+z.name+" {", "\t\t"+shadowLine)
		for _, line := range z.lines {
			line, why, _ := strings.Cut(line, " #")
			lines = append(append(lines, comment("\t\t", why)...), "\t\t"+line)
		}
		lines = append(lines, "\t}")
	}
	return indent + wording.Printable(strings.Join(append(lines, "}"), "\n"+indent), "\n\t") + "\n"
}

// comment returns a text as lines of a comment, of some 80 columns.
func comment(indent, text string) (lines []string) {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	for line := range strings.SplitSeq(wording.Look{Width: 72}.Wrapped(text), "\n") {
		lines = append(lines, indent+"# "+strings.TrimSpace(line))
	}
	return lines
}

// insert returns the Caddyfile with the zones of those sites that it doesn't import, each at the beginning of its site.
func (d *draft) insert() []byte {
	after := make(map[int]string)
	for _, s := range d.sites {
		if len(s.zones) > 0 && s.file == "" {
			after[s.line] = s.directive(s.indent)
		}
	}
	out, n := new(bytes.Buffer), 0
	for line := range bytes.Lines(d.text) {
		n++
		out.Write(line)
		text := after[n]
		if bytes.HasSuffix(line, []byte("\r\n")) {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		if text != "" && !bytes.HasSuffix(line, []byte("\n")) {
			text = "\n" + text
		}
		out.WriteString(text)
	}
	return out.Bytes()
}

// replaceFile replaces the text of a Caddyfile, and returns the path of a copy of the old one. The file stays
// the same one, with its owner and mode, since it may be mounted into a container.
func replaceFile(path string, old, text []byte) (backup string, err error) {
	info, err := os.Lstat(path) // #nosec G703 -- the operator names the file
	switch {
	case err != nil:
		return "", err
	case info.Mode()&os.ModeSymlink != 0:
		target, _ := os.Readlink(path)
		return "", fmt.Errorf("%s is a symbolic link to %s: name that file with --config", path, target)
	case info.Mode().Perm()&0o200 == 0:
		return "", fmt.Errorf("%s is read-only (%v), and stays as it is: make it writable, or edit it by what caddy rate-limit init prints", path, info.Mode().Perm())
	}
	if found, err := os.ReadFile(path); err != nil || !bytes.Equal(found, old) { // #nosec G703 -- the operator names the file
		return "", cmp.Or(err, fmt.Errorf("%s has changed meanwhile, and stays as it is: try again", path))
	}
	for n := 1; ; n++ {
		backup = fmt.Sprintf("%s.%d.bak", path, n)
		file, err := os.OpenFile(backup, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()) // #nosec G703 -- the operator names the file
		if errors.Is(err, fs.ErrExist) && n < maxCopies {
			continue
		}
		if err == nil {
			_, err = file.Write(old)
			err = cmp.Or(err, file.Sync(), file.Close())
		}
		if err != nil {
			return "", fmt.Errorf("%s stays as it is, because no copy can be kept: %w", path, err)
		}
		break
	}
	if err := os.WriteFile(path, text, 0); err != nil { //nolint:gosec // the user's own file, which is there
		return "", fmt.Errorf("%w; %s has what the file was before", err, backup)
	}
	return backup, nil
}

// maxCopies bounds the copies of a file.
const maxCopies = 1000
