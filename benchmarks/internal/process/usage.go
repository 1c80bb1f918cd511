//go:build linux

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc/PID/stat. It is the same on all
// platforms that Go runs on.
const clockTick = 10 * time.Millisecond

// CPU returns the processor time that the process and its children have taken, in
// steps of 10 ms.
func (p *Process) CPU() (time.Duration, error) {
	pids, err := p.tree()
	if err != nil {
		return 0, err
	}
	var ticks int64
	for _, pid := range pids {
		s, err := readStat(pid)
		if err != nil {
			return 0, err
		}
		ticks += s.ticks
	}
	return time.Duration(ticks) * clockTick, nil
}

// Resident returns the resident memory of the process and its children, in KiB. Memory that they
// share with each other on purpose counts once.
func (p *Process) Resident() (kib int, err error) {
	pids, err := p.tree()
	if err != nil {
		return 0, err
	}
	shared := 0
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		sizes := parseStatus(string(status))
		kib += sizes["RssAnon"] + sizes["RssFile"]
		shared = max(shared, sizes["RssShmem"])
	}
	return kib + shared, nil
}

// parseStatus returns the sizes in /proc/PID/status, in KiB.
func parseStatus(status string) map[string]int {
	sizes := make(map[string]int)
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		if kib, ok := strings.CutSuffix(strings.TrimSpace(value), " kB"); ok {
			if n, err := strconv.Atoi(kib); err == nil {
				sizes[name] = n
			}
		}
	}
	return sizes
}

// tree returns the process, and after it its children.
func (p *Process) tree() ([]int, error) {
	pids := []int{p.command.Process.Pid}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if s, err := readStat(pid); err == nil && s.parent == pids[0] { // others may have ended meanwhile
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// stat is what is read from /proc/PID/stat.
type stat struct {
	parent int
	ticks  int64 // of processor time, user and system
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(text))
}

// parseStat reads the text of /proc/PID/stat, see proc_pid_stat(5). The command's
// name comes second, in parentheses, and may contain anything.
func parseStat(text string) (s stat, err error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return stat{}, fmt.Errorf("expected 13 fields and more after the command's name, got %q", text)
	}
	if s.parent, err = strconv.Atoi(fields[1]); err != nil {
		return stat{}, err
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.ticks += ticks
	}
	return s, nil
}
