package rules

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is the kind of a target.
type Kind int

// The kinds of targets.
const (
	Address Kind = iota // an address or a network of them
	APIKey              // the name of an API key's client
	Key                 // the text of a zone's key
	Session             // a session, by the id that logs show
	ASN                 // the autonomous system of an address, by its number
	Country             // the country of an address
	kinds
)

var kindNames = [kinds]string{"address", "api-key", "key", "session", "asn", "country"}

// String returns the word for a kind before the colon of a target.
func (k Kind) String() string {
	if k < 0 || k >= kinds {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kindNames[k]
}

// Target is the client, or the clients, of a rule. Targets can be compared.
type Target struct {
	Kind    Kind
	Network netip.Prefix // if Kind is Address: in the form of [NetworkOf]
	Text    string       // for all other kinds
	Zone    string       // of a [Raise]: the only zone, or limit of a zone, as ZONE/LIMIT; "" means all
}

// In returns the target in a zone only, or in all if that is "".
func (t Target) In(zone string) Target {
	t.Zone = zone
	return t
}

// NetworkOf returns the target for a network. A rule about it applies to all its addresses. IPv4
// addresses that are mapped into IPv6 are converted to IPv4.
func NetworkOf(network netip.Prefix) Target {
	addr, bits := network.Addr(), network.Bits()
	if addr.Is4In6() && bits >= 96 {
		addr, bits = addr.Unmap(), bits-96
	}
	return Target{Network: netip.PrefixFrom(addr, bits).Masked()}
}

// addressTarget returns the target for a single address.
func addressTarget(addr netip.Addr) Target {
	addr = addr.Unmap().WithZone("")
	return Target{Network: netip.PrefixFrom(addr, addr.BitLen())}
}

const expectedTarget = "an address or network such as 203.0.113.7 or 2001:db8::/32, api-key:NAME, key:TEXT, session:ID, asn:64496 or country:DE"

// ParseTarget parses a target: an address or network, with an optional `address:` in front, or
// `api-key:`, `key:`, `session:`, `asn:` or `country:` and a text. A text with blanks, quotes or backslashes is quoted
// like a Go string.
func ParseTarget(text string) (Target, error) {
	word, value, ok := strings.Cut(text, ":")
	for kind := range kinds {
		switch {
		case !ok || word != kind.String():
		case kind == Address:
			return parseNetwork(value)
		default:
			return parseText(kind, value)
		}
	}
	return parseNetwork(text)
}

func parseNetwork(text string) (Target, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return addressTarget(addr), nil
	}
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return Target{}, fmt.Errorf("got %s, expected %s", quoted(text), expectedTarget)
	case network != network.Masked():
		return Target{}, fmt.Errorf(
			"got %s, which is an address in a network: expected %v for the network, or %v for the address",
			quoted(text), network.Masked(), network.Addr())
	}
	return NetworkOf(network), nil
}

func parseText(kind Kind, text string) (Target, error) {
	text, err := unquote(text, kind.String()+":")
	if err != nil {
		return Target{}, err
	}
	target := Target{Kind: kind, Text: text}
	return target, target.check()
}

// unquote returns a text that is quoted, unless it is a word. before stands before it, for errors.
func unquote(text, before string) (string, error) {
	if strings.HasPrefix(text, `"`) {
		unquoted, err := strconv.Unquote(text)
		if err != nil {
			return "", fmt.Errorf("got %s, expected a text between quotes, with \\\" for a quote in it", quoted(text))
		}
		return unquoted, nil
	} else if text != "" && needsQuotes(text) {
		return "", fmt.Errorf("got %s, expected a text between quotes: write %s%q", quoted(text), before, text)
	}
	return text, nil
}

// String returns the target as in a file.
func (t Target) String() string {
	switch {
	case t.Zone != "":
		return t.In("").String() + " zone " + quotedIf(needsQuotes(t.Zone) || t.Zone[0] == '#', t.Zone)
	case t.Kind == Address && t.Network.IsSingleIP():
		return t.Network.Addr().String()
	case t.Kind == Address:
		return t.Network.String()
	}
	return t.Kind.String() + ":" + quotedIf(needsQuotes(t.Text), t.Text)
}

func quotedIf(quotes bool, text string) string {
	if quotes {
		return strconv.Quote(text)
	}
	return text
}

// needsQuotes reports whether a text isn't a single word without quotes.
func needsQuotes(text string) bool {
	return text == "" || strconv.Quote(text) != `"`+text+`"` || strings.ContainsAny(text, " \t")
}

// sessionIDSize is the length of a session's id, in hexadecimal digits.
const sessionIDSize = 16

// check returns an error if the target is invalid.
func (t Target) check() error {
	switch {
	case t.Kind < 0 || t.Kind >= kinds:
		return fmt.Errorf("got %v, expected %s", t.Kind, expectedTarget)
	case t.Kind == Address && (t.Text != "" || !t.Network.IsValid() || NetworkOf(t.Network) != t.In("")):
		return fmt.Errorf("got %v, expected %s", t.Network, expectedTarget)
	case t.Kind != Address && t.Network != netip.Prefix{}:
		return fmt.Errorf("got the network %v beside a text, expected one of them", t.Network)
	case t.Kind != Address && t.Text == "":
		return fmt.Errorf("got \"%v:\", expected a text behind it", t.Kind)
	case !utf8.ValidString(t.Text) && t.Kind != Key:
		return errors.New("the text is not valid UTF-8")
	case t.Kind == Session && !isSessionID(t.Text):
		return fmt.Errorf("got %s, expected the %d hexadecimal digits that logs show of a session, in lower case",
			quoted(t.Text), sessionIDSize)
	case t.Kind == ASN && !isASN(t.Text):
		return fmt.Errorf("got %s, expected the number of an autonomous system, such as asn:64496", quoted(t.Text))
	case t.Kind == Country && !isCountry(t.Text):
		return fmt.Errorf("got %s, expected a code of two capital letters (ISO 3166-1), such as country:DE",
			quoted(t.Text))
	}
	return nil
}

func isSessionID(text string) bool {
	id, err := hex.DecodeString(text)
	return err == nil && len(text) == sessionIDSize && hex.EncodeToString(id) == text
}

func isASN(text string) bool {
	n, err := strconv.ParseUint(text, 10, 32)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == text
}

func isCountry(text string) bool {
	return len(text) == 2 && 'A' <= min(text[0], text[1]) && max(text[0], text[1]) <= 'Z'
}
