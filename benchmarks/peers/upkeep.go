//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"time"
)

// upkeep is when a store was kept up, as far as that shows from outside: Caddy logs when
// it has swept, and what writes to the database changes its files.
type upkeep struct {
	checkpoint spans // the main file was written
	write      spans // the log was written: folds, sweeps, and claims if they are made in transactions
	sweep      spans // expired rows were removed
}

// writesAlways reports whether the log was written most of the time. Then that was
// claims, not upkeep.
func (u upkeep) writesAlways(whole span) bool { return u.write.share(whole) > 0.5 }

// any returns when there was upkeep of any kind.
func (u upkeep) any(whole span) spans {
	all := append(slices.Clone(u.checkpoint), u.sweep...)
	if !u.writesAlways(whole) {
		all = append(all, u.write...)
	}
	return all.merged()
}

const (
	// watchEvery is how often files are looked at.
	watchEvery = 2 * time.Millisecond
	// watchAfter is how long after a change whatever changed a file is taken to go on: it
	// may bring it to the disk.
	watchAfter = 20 * time.Millisecond
)

// storeWatch watches the files of a database on a goroutine of its own.
type storeWatch struct {
	stopping chan struct{}
	done     chan struct{} // closed when the goroutine has ended, and seen is complete
	seen     upkeep
}

func watchStore(database string) *storeWatch {
	w := &storeWatch{stopping: make(chan struct{}), done: make(chan struct{})}
	go w.loop(database)
	return w
}

// stop ends the watch and returns what it has seen.
func (w *storeWatch) stop() upkeep {
	close(w.stopping)
	<-w.done
	return upkeep{checkpoint: w.seen.checkpoint.merged(), write: w.seen.write.merged()}
}

func (w *storeWatch) loop(database string) {
	defer close(w.done)
	main, log := watchedFile{path: database}, watchedFile{path: database + "-wal"}
	last := time.Now()
	main.changed()
	log.changed()
	for tick := time.NewTicker(watchEvery); ; {
		select {
		case <-w.stopping:
			tick.Stop()
			return
		case <-tick.C:
		}
		now := time.Now()
		changed := span{last, now.Add(watchAfter)}
		if main.changed() {
			w.seen.checkpoint = append(w.seen.checkpoint, changed)
		}
		if log.changed() {
			w.seen.write = append(w.seen.write, changed)
		}
		last = now
	}
}

// watchedFile is a file as it was when it was looked at last.
type watchedFile struct {
	path     string
	modified time.Time
	size     int64
}

// changed reports whether the file was written since the last call.
func (f *watchedFile) changed() bool {
	info, err := os.Stat(f.path)
	if err != nil || info.ModTime().Equal(f.modified) && info.Size() == f.size {
		return false
	}
	f.modified, f.size = info.ModTime(), info.Size()
	return true
}

// readSweeps reads from Caddy's log when it has swept.
func readSweeps(log string) (sweeps spans, err error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if sweep, ok := parseSweep(lines.Bytes()); ok {
			sweeps = append(sweeps, sweep)
		}
	}
	return sweeps.merged(), nil
}

// parseSweep reads a line of Caddy's log, and reports whether it says that a sweep has
// ended.
func parseSweep(line []byte) (span, bool) {
	var entry struct {
		Time    float64 `json:"ts"` // seconds since 1970
		Message string  `json:"msg"`
		Took    float64 `json:"took"` // seconds
	}
	if err := json.Unmarshal(line, &entry); err != nil || entry.Message != "cleaned up" {
		return span{}, false
	}
	end := time.UnixMicro(int64(entry.Time * 1e6))
	return span{end.Add(-time.Duration(entry.Took * float64(time.Second))), end}, true
}
