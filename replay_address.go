package tally

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// addressOf returns an address, or for a text in its place, such as a hash of it, an address
// that is made up of the text, in a network of its own.
func addressOf(text string) string {
	if _, err := netip.ParseAddr(text); err == nil || text == "" {
		return text
	}
	hash := xxhash.Sum64String(text)
	return fmt.Sprintf("fd%02x:%04x:%04x:%04x::1", hash>>48&0xff, hash>>32&0xffff, hash>>16&0xffff, hash&0xffff)
}

// hostName returns a host without its port.
func hostName(host string) string {
	name, _ := splitPort(host)
	return name
}

// splitPort splits a host into its name and its port, or "".
func splitPort(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i < 0 || strings.HasSuffix(host, "]") {
		return host, ""
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return host, ""
	}
	return name, port
}
