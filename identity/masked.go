package identity

import "github.com/caddy-tally/caddy-tally/internal/wording"

// MaskedText describes a key to operators as [KeyText] does, but shows networks instead of addresses.
func MaskedText(key []byte) string {
	if network, ok := NetworkOf(string(key)); ok {
		return wording.MaskPrefix(network).String()
	}
	if len(key) > 0 && key[0] == TagText { // it may have addresses in it
		return wording.MaskText(KeyText(key))
	}
	return KeyText(key)
}
