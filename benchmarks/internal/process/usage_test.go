//go:build linux

package process

import "testing"

func TestStatOfACommandWithAnyName(t *testing.T) {
	const text = "42 (a (b) 1 2 3) S 7 42 42 0 -1 4194560 100 0 0 0 150 25 9 9 20 0 1 0"
	got, err := parseStat(text)
	if want := (stat{parent: 7, ticks: 175}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseStat("42 (a) S 7"); err == nil {
		t.Error("got no error for a text that is cut off")
	}
}

func TestSizesOfAStatus(t *testing.T) {
	sizes := parseStatus("Name:\tnginx\nVmHWM:\t    9000 kB\nRssAnon:\t    1200 kB\nThreads:\t3\n")
	if len(sizes) != 2 || sizes["VmHWM"] != 9000 || sizes["RssAnon"] != 1200 {
		t.Errorf("got %v", sizes)
	}
}
