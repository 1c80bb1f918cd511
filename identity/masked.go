package identity

import "net/netip"

// The number of bits that are shown of masked addresses.
const (
	maskedIPv4 = 24
	maskedIPv6 = 48
)

// MaskedText describes a key to operators as [KeyText] does, but shows the network instead
// of an address.
func MaskedText(key []byte) string {
	if network, ok := NetworkOf(string(key)); ok {
		return MaskedPrefix(network).String()
	}
	text := KeyText(key)
	if len(key) > 0 && key[0] == TagText {
		if ip, err := netip.ParseAddr(text); err == nil {
			return MaskedPrefix(netip.PrefixFrom(ip.WithZone(""), ip.BitLen())).String()
		}
		if network, err := netip.ParsePrefix(text); err == nil {
			return MaskedPrefix(network).String()
		}
	}
	return text
}

// MaskedPrefix returns the network of at most 24 bits (IPv4) or 48 bits (IPv6) that contains a network.
func MaskedPrefix(p netip.Prefix) netip.Prefix {
	most := maskedIPv6
	if p.Addr().Is4() {
		most = maskedIPv4
	}
	return netip.PrefixFrom(p.Addr(), min(p.Bits(), most)).Masked()
}
