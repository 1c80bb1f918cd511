package blocklist

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/rules"
)

// Bounds of a list.
const (
	maxSize    = 16 << 20
	maxEntries = 200_000
	maxLine    = 8192
)

// special are networks of which no address is a visitor from the internet: RFC 6890 and what
// followed it.
var special = func() (networks []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
		"224.0.0.0/3",
		"::/127", "fc00::/7", "fe80::/10", "ff00::/8",
	} {
		networks = append(networks, netip.MustParsePrefix(text))
	}
	return networks
}()

// parsed is what a text has.
type parsed struct {
	bans    *set
	skipped int   // entries that may not be banned
	broken  int   // lines that are no entries
	first   error // about the first broken line; nil without any
}

// parse reads a text: an address or a network per line, which # or ; and a comment may follow. It
// returns an error if the text is no list.
func parse(text []byte) (p parsed, err error) {
	if len(text) > maxSize {
		return p, fmt.Errorf("has more than %d bytes", maxSize)
	}
	bans := make([]netip.Prefix, 0, min(bytes.Count(text, []byte("\n"))+1, maxEntries))
	n := 0
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		n++
		if end := bytes.IndexAny(line, "#;"); end >= 0 {
			line = line[:end]
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		switch network, err := parseEntry(string(line)); {
		case err != nil:
			if p.broken++; p.first == nil {
				p.first = fmt.Errorf("line %d: %w", n, err)
			}
		case isSpecial(network) || rules.NetworkOf(network).IsWide():
			p.skipped++
		case len(bans) == maxEntries:
			return p, fmt.Errorf("has more than %d entries", maxEntries)
		default:
			bans = append(bans, network)
		}
	}
	if p.broken > len(bans)+p.skipped {
		return p, fmt.Errorf("is no list of addresses: %d of its lines are none; %w", p.broken, p.first)
	}
	p.bans = newSet(bans)
	return p, nil
}

// parseEntry parses a line without comments.
func parseEntry(entry string) (network netip.Prefix, err error) {
	if len(entry) > maxLine {
		return network, fmt.Errorf("has %d bytes, expected at most %d", len(entry), maxLine)
	}
	target, err := rules.ParseTarget(entry)
	if err == nil && target.Kind != rules.Address {
		err = errors.New("expected an address or a network, such as 203.0.113.0/24")
	}
	return target.Network, err
}

func isSpecial(network netip.Prefix) bool {
	return slices.ContainsFunc(special, network.Overlaps)
}
