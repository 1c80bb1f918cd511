package apikeys

import (
	"fmt"
	"strings"
)

// maxName is the maximum length of names and tiers.
const maxName = 64

// CheckName returns an error if name isn't a valid name of a client: `acme`, or `vendor/product` for a part of one.
func CheckName(name string) error {
	client, part, parted := strings.Cut(name, "/")
	if !isWord(client) || parted && !isWord(part) || len(name) > maxName {
		return fmt.Errorf(
			"the name must be letters, digits and . _ - such as acme or vendor/product, at most %d, got %.80q",
			maxName, name)
	}
	if name == saltWord {
		return fmt.Errorf("the name can't be %q: it has a meaning of its own in a file of keys", name)
	}
	return nil
}

// CheckTier returns an error if tier isn't a valid name of a tier.
func CheckTier(tier string) error {
	if !isWord(tier) || len(tier) > maxName {
		return fmt.Errorf("a tier must be letters, digits and . _ - such as free, at most %d, got %.80q", maxName, tier)
	}
	return nil
}

// isWord reports whether s has only letters, digits and a few signs, and begins with a letter or digit.
func isWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && (i == 0 || !strings.ContainsRune("._-", rune(c))) {
			return false
		}
	}
	return s != ""
}
