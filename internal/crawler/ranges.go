package crawler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/gaissmai/bart"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// Ranges is a file with the addresses of an operator. It may be used from any number of goroutines,
// and need not be closed.
type Ranges struct{ file *textfile.File[contains] }

// contains reports whether an address is in a table of networks. Of the table only this is kept: each
// package that refers to a Ranges would compile all methods of the table again.
type contains func(netip.Addr) bool

// The bounds of a file. A wider network is a mistake: it would confirm strangers.
const (
	maxRanges   = 4 << 20 // bytes
	minBitsIPv4 = 12
	minBitsIPv6 = 24
)

// OpenRanges reads a file, which must exist. It is read again after it changes. Then changed is
// called, with an error if the previous addresses stay in force.
func OpenRanges(path string, changed func(error)) (*Ranges, error) {
	file, err := textfile.Open(textfile.Options[contains]{
		Prefix: "ranges", Path: path, MaxSize: maxRanges, Required: true, Parse: parseRanges,
		Changed: func(_ *contains, err error) { changed(err) },
	})
	return &Ranges{file}, err
}

// Contains reports whether an address is in the file.
func (r *Ranges) Contains(addr netip.Addr) bool { return (*r.file.Fresh())(addr.Unmap()) }

// parseRanges reads a list in JSON, as Google, Bing and others publish it, or a network or address
// per line.
func parseRanges(text []byte) (*contains, error) {
	lines := strings.Split(string(text), "\n")
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		var err error
		if lines, err = jsonRanges(text); err != nil {
			return nil, err
		}
	}
	networks := new(bart.Lite)
	for i, line := range lines {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		network, err := parseNetwork(line)
		if err != nil {
			return nil, fmt.Errorf("network %d: %w", i+1, err)
		}
		networks.Insert(network)
	}
	if networks.Size() == 0 {
		return nil, errors.New("there are no networks: expected a line such as 192.0.2.0/24 for each, or JSON such as {\"prefixes\": [{\"ipv4Prefix\": \"192.0.2.0/24\"}]}")
	}
	return new(contains(networks.Contains)), nil
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
		return network, fmt.Errorf("got %v, which is too wide for one operator: expected /%d or narrower",
			network, least)
	}
	return network.Masked(), nil
}
