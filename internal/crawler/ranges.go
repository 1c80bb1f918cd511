package crawler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// Ranges is a file with the addresses of an operator. It may be used from any number of goroutines,
// and need not be closed.
type Ranges struct{ file *textfile.File[networks] }

// networks are networks in ascending order, none within another.
type networks []netip.Prefix

// The bounds of a file. A wider network is a mistake: it would confirm strangers.
const (
	maxRanges   = 4 << 20 // bytes
	minBitsIPv4 = 12
	minBitsIPv6 = 24
)

// OpenRanges reads a file, which must exist. It is read again after it changes. Then changed is
// called, with an error if the previous addresses stay in force.
func OpenRanges(path string, changed func(error)) (*Ranges, error) {
	file, err := textfile.Open(textfile.Options[networks]{
		Prefix: "ranges", Path: path, MaxSize: maxRanges, Required: true, Parse: parseRanges,
		Changed: func(_ *networks, err error) { changed(err) },
	})
	return &Ranges{file}, err
}

// Contains reports whether an address is in the file.
func (r *Ranges) Contains(addr netip.Addr) bool { return r.file.Fresh().contains(addr.Unmap()) }

// parseRanges reads a list in JSON, as Google, Bing and others publish it, or a network or address
// per line.
func parseRanges(text []byte) (*networks, error) {
	lines := strings.Split(string(text), "\n")
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		var err error
		if lines, err = jsonRanges(text); err != nil {
			return nil, err
		}
	}
	var list []netip.Prefix
	for i, line := range lines {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		network, err := parseNetwork(line)
		if err != nil {
			return nil, fmt.Errorf("network %d: %w", i+1, err)
		}
		list = append(list, network)
	}
	if len(list) == 0 {
		return nil, errors.New("there are no networks: expected a line such as 192.0.2.0/24 for each, or JSON such as {\"prefixes\": [{\"ipv4Prefix\": \"192.0.2.0/24\"}]}")
	}
	return newNetworks(list), nil
}

// newNetworks returns the networks of a list, which it reorders.
func newNetworks(list []netip.Prefix) *networks {
	slices.SortFunc(list, netip.Prefix.Compare)
	sorted := networks(list[:0])
	for _, network := range list {
		if !sorted.contains(network.Addr()) {
			sorted = append(sorted, network)
		}
	}
	return &sorted
}

// contains reports whether an address is in one of the networks: in the last that doesn't begin
// behind it.
func (n networks) contains(addr netip.Addr) bool {
	behind, _ := slices.BinarySearchFunc(n, addr, func(network netip.Prefix, addr netip.Addr) int {
		if network.Addr().Compare(addr) <= 0 {
			return -1
		}
		return 1
	})
	return behind > 0 && n[behind-1].Contains(addr)
}

func jsonRanges(text []byte) (networks []string, err error) {
	var list struct {
		Prefixes []struct{ IPv4Prefix, IPv6Prefix string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	for _, p := range list.Prefixes {
		networks = append(networks, p.IPv4Prefix, p.IPv6Prefix)
	}
	return networks, nil
}

func parseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		text = netip.PrefixFrom(addr, addr.BitLen()).String()
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return network, fmt.Errorf("got %.50q: expected a network or an address, such as 192.0.2.0/24", text)
	}
	least := minBitsIPv4
	if network.Addr().Is6() {
		least = minBitsIPv6
	}
	if network.Bits() < least {
		return network, fmt.Errorf("got %v, which is too wide for one operator: expected /%d or narrower", network, least)
	}
	return network.Masked(), nil
}
