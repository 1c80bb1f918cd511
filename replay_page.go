package tally

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/replay"
)

// replayPage is the file that a replay writes its page to. It is opened before a log is read, so
// that nobody waits for a long replay to learn that the page can't be written.
type replayPage struct {
	file    *os.File // nil if no page is written, or once it is
	regular bool
	made    bool // there was no file before
}

// openReplayPage opens the file at a path, or none for "". What it holds stays until the page is
// written.
func openReplayPage(path string, logs []string) (*replayPage, error) {
	if path == "" {
		return new(replayPage), nil
	}
	before, err := os.Stat(path)
	if err == nil && slices.ContainsFunc(logs, func(log string) bool { return isFile(log, before) }) {
		return nil, fmt.Errorf("--html: %s is one of the logs: expected another file", path)
	}
	p := &replayPage{made: errors.Is(err, os.ErrNotExist), regular: err != nil || before.Mode().IsRegular()}
	p.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600) // it shows who came when
	if err != nil {
		return nil, fmt.Errorf("--html: %w", err)
	}
	return p, nil
}

// isFile reports whether a path is that of a file.
func isFile(path string, file os.FileInfo) bool {
	info, err := os.Stat(path)
	return err == nil && os.SameFile(info, file)
}

// write writes the page, and closes its file.
func (p *replayPage) write(report *replay.Report) (err error) {
	if p.file == nil {
		return nil
	}
	if p.regular {
		err = errors.Join(p.file.Truncate(0), p.file.Chmod(0o600))
	}
	if err == nil {
		err = report.WriteHTML(p.file)
	}
	err = errors.Join(err, p.file.Close())
	p.file = nil
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// close closes the file if no page was written, and removes it if it was made for that.
func (p *replayPage) close() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	if p.made {
		err = errors.Join(err, os.Remove(p.file.Name()))
	}
	return err
}
