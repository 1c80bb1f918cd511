// Package crawler confirms that requests which claim to be from a known crawler are, by addresses:
// those that the crawler's operator publishes as a list, and those whose reverse DNS is confirmed by
// forward DNS.
//
// # Invariants
//
//   - No request waits for DNS: until its address is confirmed it isn't.
//   - Memory is bounded, and so are DNS look-ups: at once, and per second.
//   - Addresses that aren't confirmed can't displace confirmed ones, and can't use up the look-ups of
//     their neighbors.
//   - Nothing is written to disk.
package crawler
