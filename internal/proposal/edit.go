package proposal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/textfile"
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

// zonesIn returns the zones of the sites of a block: of a site and its parts.
func zonesIn(sites []*site, block int) (zones []zone) {
	for _, s := range sites {
		if s.block == block {
			zones = append(zones, s.zones...)
		}
	}
	return zones
}

// directive returns zones as a directive.
func directive(zones []zone, indent string) string {
	lines := []string{names.Handler + " {"}
	for _, z := range zones {
		if z.exempt != "" && !slices.Contains(lines, z.exempt) {
			lines = append(lines, z.exempt)
		}
	}
	for _, z := range zones {
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

// insert returns the Caddyfile with the zones of those sites that it doesn't import, each at the beginning of its
// site, and the blocks of these sites. The line that a site begins on is where its zones mean what they should:
// values of the environment may have lines, and addresses be continued. What has no such line is left out.
func (d *draft) insert() (text []byte, blocks map[int]bool) {
	text, blocks = d.text, make(map[int]bool)
	var inserted []*site
	for _, s := range slices.Backward(d.sites) {
		zones := zonesIn(d.sites, s.block)
		if s.whole != nil || len(zones) == 0 || s.file != "" {
			continue
		}
		with := append(slices.DeleteFunc(slices.Clone(d.sites),
			func(other *site) bool { return other.block != s.block }), inserted...)
		meant, err := d.adapted(with)
		from := s.line
		if bytes.Contains(text, []byte("{$")) { // Caddy counts lines of the environment's values, too
			from = max(1, from-maxHead)
		}
		for line := from; err == nil && line < s.line+maxHead && !blocks[s.block]; line++ {
			indent := s.indent
			if line != s.line { // after a brace below the addresses
				indent = "\t"
			}
			tried := insertAfter(text, line, directive(zones, indent))
			if got, err := adapt(d.file, tried); err == nil && isAlike(got, meant) {
				text, inserted, blocks[s.block] = tried, with, true
			}
		}
	}
	return text, blocks
}

// maxHead bounds the lines of a site's addresses and its brace, and those of values of the environment before them.
const maxHead = 20

// sessionOption is what a zone against crowds needs.
const sessionOption = names.App + " {\n\t\tsession\n\t}\n"

// withSession returns a Caddyfile with the global option session, the same if it has that, and nil if no line is
// found for it.
func withSession(file string, text []byte) []byte {
	want, ok := butSession(file, text)
	if ok {
		return text
	}
	isMeant := func(tried []byte) bool {
		rest, ok := butSession(file, tried)
		return ok && isAlike(rest, want)
	}
	if tried := insertAfter(text, 0, "{\n\t"+sessionOption+"}\n\n"); isMeant(tried) {
		return tried
	}
	n := 0
	for line := range bytes.Lines(text) {
		if n++; n > maxGlobal || !bytes.Contains(line, []byte("{")) {
			continue
		}
		for _, option := range []string{"\t" + sessionOption, "\t\tsession\n"} {
			if tried := insertAfter(text, n, option); isMeant(tried) {
				return tried
			}
		}
	}
	return nil
}

// butSession returns the JSON of a Caddyfile without its global option session, and whether it has that.
func butSession(file string, text []byte) (rest []byte, ok bool) {
	var config struct {
		Apps map[string]map[string]any `json:"apps"`
	}
	adapted, err := adapt(file, text)
	if err != nil || json.Unmarshal(adapted, &config) != nil {
		return nil, false
	}
	app := config.Apps[names.App]
	ok = app["session"] != nil
	delete(app, "session")
	if delete(app, "source"); len(app) == 0 {
		delete(config.Apps, names.App)
	}
	rest, err = json.Marshal(config)
	return rest, ok && err == nil
}

// maxGlobal bounds the lines of global options.
const maxGlobal = 200

// insertAfter returns a text with more lines after one of its lines, or before the first one, which is 1.
func insertAfter(text []byte, after int, lines string) []byte {
	at := 0
	for ; after > 0 && at < len(text); after-- {
		at += cmp.Or(bytes.IndexByte(text[at:], '\n')+1, len(text)-at)
	}
	if at > 0 && text[at-1] != '\n' {
		lines = "\n" + lines
	}
	if bytes.Contains(text, []byte("\r\n")) {
		lines = strings.ReplaceAll(lines, "\n", "\r\n")
	}
	return slices.Concat(text[:at], []byte(lines), text[at:])
}

// isAlike reports whether two configs mean the same, wherever their zones are written.
func isAlike(a, b []byte) bool {
	return bytes.Equal(zoneSource.ReplaceAll(a, nil), zoneSource.ReplaceAll(b, nil))
}

var zoneSource = regexp.MustCompile(`"source":"(?:[^"\\]|\\.)*",?`)

// replaceFile replaces the text of a Caddyfile, and returns the path of a copy of the old one. Then what is there
// must mean the same as the new text did, or the old one is put back.
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
	meant, err := adapt(path, text)
	if err != nil {
		return "", err
	}
	if backup, err = keep(path, old, info.Mode().Perm()); err != nil {
		return "", fmt.Errorf("%s stays as it is, because no copy can be kept: %w", path, err)
	}
	if err := textfile.Replace(path, old, text); err != nil {
		return "", fmt.Errorf("%w; %s has what the file was before", err, backup)
	}
	found, err := os.ReadFile(path) // #nosec G703 -- the operator names the file
	if err == nil {
		found, err = adapt(path, found)
	}
	if err == nil && !isAlike(found, meant) {
		err = errors.New("it means something else than expected")
	}
	if err != nil {
		back := textfile.Replace(path, text, old)
		return "", errors.Join(fmt.Errorf("after writing %s: %w; so its old text was put back, which %s has, too", path,
			err, backup), back)
	}
	return backup, nil
}

// keep writes a copy of a file beside it. Its name begins with a dot, so that import sites/* doesn't read it.
func keep(path string, text []byte, mode fs.FileMode) (copied string, err error) {
	for n := 1; ; n++ {
		copied = filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.bak", filepath.Base(path), n))
		// #nosec G703 -- the operator names the file
		file, err := os.OpenFile(copied, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) && n < maxCopies {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = file.Write(text)
		if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
			os.Remove(copied)
		}
		return copied, err
	}
}

// maxCopies bounds the copies of a file.
const maxCopies = 1000
