package identity

import (
	"encoding/hex"
	"net/netip"
)

// The bits of an address that are shown where it isn't needed exactly.
const (
	maskedIPv4 = 24
	maskedIPv6 = 48
)

// MaskedText describes a key to operators as [KeyText] does, but shows the network instead
// of an address.
func MaskedText(key []byte) string {
	if len(key) == 0 {
		return ""
	}
	switch tag, value := key[0], key[1:]; tag {
	case TagNetwork:
		return MaskedPrefix(PrefixOf(value)).String()
	case TagFingerprint:
		at := len(value) - FingerprintSize
		return MaskedPrefix(PrefixOf(value[:at])).String() + " " + hex.EncodeToString(value[at:])
	case TagText:
		if ip, err := netip.ParseAddr(string(value)); err == nil {
			return MaskedPrefix(netip.PrefixFrom(ip.WithZone(""), ip.BitLen())).String()
		}
		if network, err := netip.ParsePrefix(string(value)); err == nil {
			return MaskedPrefix(network).String()
		}
	}
	return KeyText(key)
}

// MaskedPrefix returns a network of at most 24 bits of an IPv4 address, or 48 of an IPv6
// address, that a network is in.
func MaskedPrefix(p netip.Prefix) netip.Prefix {
	most := maskedIPv6
	if p.Addr().Is4() {
		most = maskedIPv4
	}
	return netip.PrefixFrom(p.Addr(), min(p.Bits(), most)).Masked()
}
