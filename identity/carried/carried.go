// Package carried finds the IPv4 addresses that IPv6 addresses carry.
package carried

import "net/netip"

// carriers are the IPv6 networks whose addresses carry the IPv4 address of their host. Without them a host with
// one IPv4 address could use any number of IPv6 networks (6to4, Teredo), or all of IPv4 would be one network
// (translators).
//
// An IPv4 address in the interface identifier (ISATAP, RFC 5214) doesn't count: the owner of a network chooses
// the identifiers in it, and could claim any address (decision 26).
var carriers = []struct {
	network netip.Prefix
	carried func(b [16]byte) [4]byte
}{
	{netip.MustParsePrefix("2002::/16"), func(b [16]byte) [4]byte { return [4]byte(b[2:]) }}, // 6to4: RFC 3056
	{netip.MustParsePrefix("2001::/32"), teredo},
	{netip.MustParsePrefix("64:ff9b::/96"), last32},       // NAT64: RFC 6052, section 2.1
	{netip.MustParsePrefix("64:ff9b:1::/48"), localNAT64}, // NAT64 within one network: RFC 8215
	{netip.MustParsePrefix("::ffff:0:0:0/96"), last32},    // SIIT: RFC 2765, section 2.1
	{netip.MustParsePrefix("::/96"), last32},              // IPv4-compatible: RFC 4291, section 2.5.5.1
}

// Of returns the IPv4 address that an IPv6 address carries: one that is mapped into IPv6, translated (NAT64),
// tunneled (6to4, Teredo) or IPv4-compatible. It returns any other address unchanged, but without a zone ID.
//
// Answers to a carried address go to the IPv4 host that it names. So a host can't complete a handshake under
// another host's address, unless it controls the relay.
func Of(addr netip.Addr) netip.Addr {
	addr = addr.WithZone("").Unmap()
	if addr.Is4() || addr.IsUnspecified() || addr.IsLoopback() {
		return addr
	}
	for _, c := range carriers {
		if c.network.Contains(addr) {
			return netip.AddrFrom4(c.carried(addr.As16()))
		}
	}
	return addr
}

func last32(b [16]byte) [4]byte { return [4]byte(b[12:]) }

// teredo returns the address of the client's NAT, whose bits are inverted (RFC 4380, section 4).
func teredo(b [16]byte) [4]byte { return [4]byte{^b[12], ^b[13], ^b[14], ^b[15]} }

// localNAT64 returns the address after a prefix of 48, 56, 64 or 96 bits (RFC 6052, section 2.2), depending on the
// network's choice. All except the longest leave zeros after the address, which an address in the last 32 bits
// doesn't have.
func localNAT64(b [16]byte) [4]byte {
	switch {
	case b[8] != 0 || b[13] != 0 || b[14] != 0 || b[15] != 0:
		return last32(b)
	case b[12] != 0:
		return [4]byte{b[9], b[10], b[11], b[12]}
	case b[11] != 0:
		return [4]byte{b[7], b[9], b[10], b[11]}
	}
	return [4]byte{b[6], b[7], b[9], b[10]}
}
