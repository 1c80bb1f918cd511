//go:build linux

package main

import (
	"bufio"
	"maps"
	"strings"
	"testing"
)

func TestSmaps(t *testing.T) {
	const text = `00400000-02000000 r-xp 00000000 fe:00 1 /tmp/x/plain
Rss:                 100 kB
Anonymous:             4 kB
c000000000-c000c00000 rw-p 00000000 00:00 0
Rss:                  50 kB
Anonymous:            50 kB
VmFlags: rd wr mr
7f0000000000-7f0002000000 rw-s 00000000 fe:00 2 /tmp/x/full/tally.db-charges
Rss:                  20 kB
Anonymous:             0 kB
`
	got := parseSmaps(bufio.NewScanner(strings.NewReader(text)), "/tmp/x")
	want := map[string]int64{all: 170 << 10, own: 54 << 10, binary: 96 << 10, other: 20 << 10}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
