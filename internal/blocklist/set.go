package blocklist

import (
	"net/netip"
	"slices"
)

// set has the networks of a list: in order, and none within another, so that a binary search finds
// the one with an address. A nil set is empty.
type set struct {
	networks []netip.Prefix
	entries  int // of the list, including networks within others
}

// newSet returns the set of some networks, which it sorts and keeps.
func newSet(networks []netip.Prefix) *set {
	s := &set{entries: len(networks)}
	slices.SortFunc(networks, netip.Prefix.Compare) // of two that begin alike, the wider one comes first
	for _, network := range networks {
		if n := len(s.networks); n == 0 || !s.networks[n-1].Overlaps(network) {
			s.networks = append(networks[:n], network) // where they were: n is at most the index of network
		}
	}
	s.networks = slices.Clip(s.networks)
	return s
}

// find returns the network with an address, which must not be an IPv4 address in IPv6.
func (s *set) find(addr netip.Addr) (netip.Prefix, bool) {
	if s == nil {
		return netip.Prefix{}, false
	}
	i, found := slices.BinarySearchFunc(s.networks, addr,
		func(network netip.Prefix, addr netip.Addr) int { return network.Addr().Compare(addr) })
	if !found {
		i--
	}
	if i < 0 || !s.networks[i].Contains(addr) {
		return netip.Prefix{}, false
	}
	return s.networks[i], true
}

// agrees reports whether at least half of the networks of either set are in the other one.
func (s *set) agrees(other *set) bool {
	common := 0
	for _, network := range s.networks {
		if _, found := slices.BinarySearchFunc(other.networks, network, netip.Prefix.Compare); found {
			common++
		}
	}
	return 2*common >= max(len(s.networks), len(other.networks))
}
