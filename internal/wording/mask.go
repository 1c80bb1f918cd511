package wording

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/identity/carried"
)

var (
	// perhaps6 finds candidates of IPv6 addresses: runs of their characters, in which a colon may be escaped.
	perhaps6 = regexp.MustCompile(`(?:[0-9A-Fa-f.]|(?::|%(?:25)*3[Aa]))*(?::|%(?:25)*3[Aa])[0-9A-Fa-f.]*(?::|%(?:25)*3[Aa])(?:[0-9A-Fa-f.]|(?::|%(?:25)*3[Aa]))*(?:%[0-9A-Za-z_-]+)?(?:/[0-9]+)?`)
	// perhaps4 finds candidates of IPv4 addresses. Names in the DNS have hyphens, or the numbers in reverse.
	perhaps4 = regexp.MustCompile(`([0-9]{1,3})((?:(?:[._-]|%(?:25)*2[Ee])[0-9]{1,3}){2}(?:[._-]|%(?:25)*2[Ee]))([0-9]{1,3})((?i:\.in-addr\.arpa)|(?:/[0-9]+)?)`)

	colons = regexp.MustCompile(`%(?:25)*3[Aa]`)
	dots   = regexp.MustCompile(`%(?:25)*2[Ee]`)
)

// MaskText replaces all IP addresses in a text by networks.
func MaskText(text string) string {
	text = perhaps6.ReplaceAllStringFunc(text, mask6)
	return perhaps4.ReplaceAllStringFunc(text, mask4)
}

// mask6 masks a run that may be an address. `:` may precede it. Of a run that is none, but may have one in it, such
// as one before the number of a port, at most three groups are left.
func mask6(run string) string {
	core := strings.TrimRight(colons.ReplaceAllString(run, ":"), ".")
	if !strings.HasPrefix(core, "::") {
		core = strings.TrimLeft(core, ":")
	}
	if !strings.HasSuffix(core, "::") {
		core = strings.TrimRight(core, ":")
	}
	before, after, _ := strings.Cut(colons.ReplaceAllString(run, ":"), core)
	short := strings.Index(core, "::")
	if shown, _, ok := MaskAddress(core); ok {
		return before + shown + after
	} else if short < 0 && strings.Count(core, ":") < 7 {
		return run
	}
	groups := strings.SplitN(core, ":", 4)
	if groups[0] == "2002" { // the third has the end of an IPv4 address
		groups = groups[:3]
	}
	kept := strings.Join(groups[:min(len(groups)-1, 3)], ":")
	if short >= 0 && short < len(kept) {
		kept = core[:short]
	}
	return before + kept + "…" + after
}

// mask4 masks what looks like an address. 120.0.0.0 is no client's: it is the version of a browser.
func mask4(found string) string {
	parts := perhaps4.FindStringSubmatch(found)
	numbers := strings.FieldsFunc(dots.ReplaceAllString(parts[1]+parts[2]+parts[3], "."),
		func(r rune) bool { return r < '0' || r > '9' })
	for i, number := range numbers {
		n, _ := strconv.Atoi(number) // three digits at most
		if n > 255 {
			return found
		}
		numbers[i] = strconv.Itoa(n)
	}
	address := strings.Join(numbers, ".")
	switch separators := strings.Trim(parts[2], "0123456789"); {
	case strings.HasSuffix(found, ".0.0.0"):
		return found
	case strings.HasPrefix(parts[4], "."):
		return "…" + parts[2] + parts[3] + parts[4]
	case strings.ContainsAny(separators, "-_"):
		return parts[1] + parts[2] + "…" + parts[4]
	}
	shown, _, ok := MaskAddress(address + parts[4])
	if !ok { // of no network
		shown, _, _ = MaskAddress(address)
	}
	return shown
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
	return masked.String(), masked != network.Masked(), true
}

// The number of bits that are shown of masked addresses.
const (
	shownBits4 = 24
	shownBits6 = 48
)

// MaskPrefix returns the network of at most 24 bits (IPv4) or 48 bits (IPv6) that contains a network. An address that
// carries an IPv4 address is that, as limits count it.
func MaskPrefix(p netip.Prefix) netip.Prefix {
	if addr := p.Addr(); p.IsSingleIP() {
		addr = carried.Of(addr)
		p = netip.PrefixFrom(addr, addr.BitLen())
	}
	most := shownBits6
	switch {
	case p.Addr().Is4():
		most = shownBits4
	case in6to4.Contains(p.Addr()):
		most = in6to4.Bits() + shownBits4
	}
	return netip.PrefixFrom(p.Addr(), min(p.Bits(), most)).Masked()
}

// in6to4 has IPv4 addresses in the bits that are shown of others.
var in6to4 = netip.MustParsePrefix("2002::/16")
