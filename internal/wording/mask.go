package wording

import (
	"net/netip"
	"regexp"
	"strings"
)

var (
	// perhaps6 finds candidates of IPv6 addresses: runs of their characters.
	perhaps6 = regexp.MustCompile(`[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[0-9A-Za-z_-]+)?(?:/[0-9]+)?`)
	perhaps4 = regexp.MustCompile(`[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]+)?`)
)

// MaskText replaces all IP addresses in a text by networks.
func MaskText(text string) string {
	text = perhaps6.ReplaceAllStringFunc(text, mask6)
	return perhaps4.ReplaceAllStringFunc(text, func(found string) string {
		if shown, _, ok := MaskAddress(found); ok {
			return shown
		}
		return found
	})
}

// mask6 masks the longest address at the end of a run. `key:` may precede it.
func mask6(run string) string {
	core := strings.TrimRight(run, ".")
	if !strings.HasSuffix(core, "::") {
		core = strings.TrimRight(core, ":")
	}
	tail := run[len(core):]
	for at := 0; at < len(core); at++ {
		if at > 0 && core[at-1] != ':' {
			continue
		}
		if shown, _, ok := MaskAddress(core[at:]); ok {
			return core[:at] + shown + tail
		}
	}
	return run
}

// MaskAddress returns the masked form of an address or a network. narrowed reports whether that
// differs: it is a larger network.
func MaskAddress(text string) (shown string, narrowed, ok bool) {
	network, err := netip.ParsePrefix(text)
	if err != nil {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return "", false, false
		}
		ip = ip.Unmap().WithZone("")
		network = netip.PrefixFrom(ip, ip.BitLen())
	}
	masked := MaskPrefix(network)
	return masked.String(), masked.Bits() < network.Bits(), true
}

// The number of bits that are shown of masked addresses.
const (
	shownBits4 = 24
	shownBits6 = 48
)

// MaskPrefix returns the network of at most 24 bits (IPv4) or 48 bits (IPv6) that contains a network.
func MaskPrefix(p netip.Prefix) netip.Prefix {
	most := shownBits6
	if p.Addr().Is4() {
		most = shownBits4
	}
	return netip.PrefixFrom(p.Addr(), min(p.Bits(), most)).Masked()
}
