package crawler

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRanges(t *testing.T) {
	for text, want := range map[string]string{
		`{"creationTime": "2026-11-23", "prefixes": [{"ipv6Prefix": "2001:db8::/64"}, {"ipv4Prefix": "192.0.2.0/27"}]}`: "",
		"# ours\n192.0.2.0/27 # west\r\n\n2001:db8::1\n192.0.2.5":                                                       "",
		"":                                    "there are no networks",
		"{}":                                  "there are no networks",
		`{"prefixes": [{"ipv4Prefix": 7}]}`:   "cannot unmarshal",
		"192.0.2.0/27\n0.0.0.0/0":             "network 2: got 0.0.0.0/0, which is too wide",
		"2000::/3":                            "too wide",
		"<html>":                              `got "<html>"`,
		`{"prefixes": [{"ipv4Prefix": "x"}]}`: `got "x"`,
	} {
		ranges, err := parseRanges([]byte(text))
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %s", text, err, want)
			}
			continue
		}
		if err != nil || !(*ranges)(netip.MustParseAddr("192.0.2.5")) || !(*ranges)(netip.MustParseAddr("2001:db8::1")) || (*ranges)(netip.MustParseAddr("192.0.2.32")) {
			t.Errorf("%q: got %v, %v", text, ranges, err)
		}
	}
}

// Networks may lie within one another, and come in any order.
func TestNetworksWithinNetworks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var list []netip.Prefix
		var text strings.Builder
		for range 1 + random.IntN(20) {
			addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(random.Uint32())})
			list = append(list, netip.PrefixFrom(addr, 24+random.IntN(9)).Masked())
			fmt.Fprintln(&text, list[len(list)-1])
		}
		n, err := parseRanges([]byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 256 {
			addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
			want := slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
			if (*n)(addr) != want {
				t.Fatalf("%v of %v: got %v, want %v", addr, list, !want, want)
			}
		}
	}
}

func TestTheLastGoodRangesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ranges")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenRanges(path, nil); err == nil || !strings.Contains(err.Error(), "there is no file") {
		t.Errorf("a missing file: %v", err)
	}
	write("192.0.2.0/27")
	var changes []error
	r, err := OpenRanges(path, func(err error) { changes = append(changes, err) })
	if err != nil {
		t.Fatal(err)
	}
	old, fresh := netip.MustParseAddr("::ffff:192.0.2.5"), netip.MustParseAddr("198.51.100.5")
	write("<html>Sorry!</html>")
	if r.file.Look(); !r.Contains(old) || len(changes) != 1 || changes[0] == nil {
		t.Errorf("after a broken file: %v", changes)
	}
	write("198.51.100.0/24\n")
	if r.file.Look(); r.Contains(old) || !r.Contains(fresh) || len(changes) != 2 || changes[1] != nil {
		t.Errorf("after a good file: %v", changes)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if r.file.Look(); !r.Contains(fresh) || len(changes) != 3 || changes[2] == nil {
		t.Errorf("after a removed file: %v", changes)
	}
}
