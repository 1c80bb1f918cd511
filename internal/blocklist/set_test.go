package blocklist

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"testing"
)

// The set finds what a search through all networks finds.
func TestSetAgainstASlowSearch(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	addr := func() netip.Addr {
		if random.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{203, 0, byte(random.IntN(2)), byte(random.IntN(256))})
		}
		return netip.AddrFrom16([16]byte{0x20, 1, 15: byte(random.IntN(256))})
	}
	for range 300 {
		var networks []netip.Prefix
		for range random.IntN(30) {
			a := addr()
			network, _ := a.Prefix(a.BitLen() - random.IntN(10))
			networks = append(networks, network)
		}
		s := newSet(slices.Clone(networks))
		if s.entries != len(networks) {
			t.Fatalf("seed %d: %d entries, want %d", seed, s.entries, len(networks))
		}
		for range 100 {
			a := addr()
			found, ok := s.find(a)
			if want := slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) }); ok != want || ok && !found.Contains(a) {
				t.Fatalf("seed %d: %v of %v: found %v %t, want %t", seed, a, networks, found, ok, want)
			}
		}
	}
}

// A full list takes at most 40 bytes for each entry.
func TestAFullListIsSmall(t *testing.T) {
	var text bytes.Buffer
	for i := range maxEntries {
		fmt.Fprintf(&text, "%d.%d.%d.%d\n", 11+i>>16&15, i>>8&255, i&255, i%251)
	}
	p, err := parse(text.Bytes())
	if err != nil || p.bans.entries != maxEntries {
		t.Fatal(p.bans.entries, err)
	}
	if took := uintptr(cap(p.bans.networks)) * reflect.TypeFor[netip.Prefix]().Size(); took > 40*maxEntries {
		t.Errorf("it takes %d bytes", took)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		p.bans.find(netip.AddrFrom4([4]byte{11, 1, 2, 3}))
	}
	if runtime.ReadMemStats(&after); after.Mallocs-before.Mallocs > 100 {
		t.Errorf("looking up allocates %d times", after.Mallocs-before.Mallocs)
	}
}
