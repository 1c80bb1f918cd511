package dashboard

import (
	"net/netip"
	"regexp"
	"strings"
)

// Networks that addresses are shown as.
const (
	shownBits4 = 24
	shownBits6 = 48
)

var (
	// perhaps6 finds what may hold an IPv6 address: a run of its characters.
	perhaps6 = regexp.MustCompile(`[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[0-9A-Za-z_-]+)?(?:/[0-9]+)?`)
	perhaps4 = regexp.MustCompile(`[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]+)?`)
)

// mask returns a text with all IP addresses in it as networks.
func mask(text string) string {
	text = perhaps6.ReplaceAllStringFunc(text, mask6)
	return perhaps4.ReplaceAllStringFunc(text, func(found string) string {
		if shown, _, ok := maskOne(found); ok {
			return shown
		}
		return found
	})
}

// mask6 masks the longest address that a run ends with: `key:` may be in front of it.
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
		if shown, _, ok := maskOne(core[at:]); ok {
			return core[:at] + shown + tail
		}
	}
	return run
}

// maskOne returns the network that an address or a network is shown as. Narrowed reports
// whether that is a larger one.
func maskOne(text string) (shown string, narrowed, ok bool) {
	network, err := netip.ParsePrefix(text)
	if err != nil {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return "", false, false
		}
		ip = ip.Unmap().WithZone("")
		network = netip.PrefixFrom(ip, ip.BitLen())
	}
	bits := shownBits6
	if network.Addr().Is4() {
		bits = shownBits4
	}
	narrowed = network.Bits() > bits
	if narrowed {
		network = netip.PrefixFrom(network.Addr(), bits)
	}
	return network.Masked().String(), narrowed, true
}
