package operator

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// Target is the client of a command or a question, as people paste it. A rule of a file has a type of its own, which
// is stricter (decision 179).
type Target struct {
	Kind TargetKind
	// Network is set for [Address]: a single address is a network of full length.
	Network netip.Prefix
	// Value is the name for all other kinds: a name, a key's text, an id, a reference.
	Value string
}

// TargetKind is the kind of a target.
type TargetKind string

// The kinds of targets. Each except an address needs its kind in front, followed by a colon.
const (
	Address TargetKind = "address" // an address or a network; the kind may be left out
	KeyText TargetKind = "key"     // what the value of a zone's `key` is
	APIKey  TargetKind = "api-key" // the name of an API key
	Session TargetKind = "session" // the id of a session, as lists show it
	ASN     TargetKind = "asn"     // an autonomous system of addresses, by its number
	Country TargetKind = "country" // a country of addresses, such as DE
	// the tag of a client that memory holds, as lists show it, or all of {http.rate_limit.client}
	Tag       TargetKind = "tag"
	Reference TargetKind = "ref" // the reference of a refusal
)

// maxTarget is the most bytes of a target's text.
const maxTarget = 1024

// ParseTarget parses the text that names a client: 203.0.113.9, 2001:db8::/48, api-key:acme,
// key:alice, session:1f2e3d4c5b6a7980, tag:3fa9c1 or ref:…. A value may be quoted as in the rules
// file.
//
// A reference may also have the form that refused people see: without ref:, in groups, or as a URI.
func ParseTarget(text string) (Target, error) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxTarget {
		return Target{}, Errorf(http.StatusBadRequest, "client: expected an address, a network, api-key:NAME, key:TEXT, session:ID, asn:NUMBER, country:CODE, tag:TAG or ref:REFERENCE of at most %d bytes", maxTarget)
	}
	kind, value, named := strings.Cut(text, ":")
	switch TargetKind(kind) {
	case Tag:
		if tag := strings.ToLower(value); named && isTag(tag) {
			return Target{Kind: Tag, Value: tag}, nil
		}
	case KeyText, APIKey, Session, ASN, Country, Reference:
		if named && value != "" {
			return parseValue(TargetKind(kind), value)
		}
	case Address:
		text = value
	case referenceScheme:
		if value = value[strings.LastIndexByte(value, ':')+1:]; value != "" {
			return Target{Kind: Reference, Value: value}, nil
		}
	}
	if network, ok := parseNetwork(text); ok {
		if typed, err := netip.ParsePrefix(text); err == nil && typed != network {
			return Target{}, Errorf(http.StatusBadRequest,
				"client: got %q, which is an address in a network: expected %v for the network, or %v for the address", text, network, typed.Addr())
		}
		return Target{Kind: Address, Network: network}, nil
	}
	if reference, ok := parseReference(text); ok {
		return Target{Kind: Reference, Value: reference}, nil
	}
	return Target{}, Errorf(http.StatusBadRequest, "client: got %q: expected an address such as 203.0.113.9, a network such as 203.0.113.0/24, or one of api-key:NAME, key:TEXT, session:ID, asn:NUMBER, country:CODE, tag:TAG and ref:REFERENCE", text)
}

// isTag reports whether a text is 6 to 32 hexadecimal digits.
func isTag(text string) bool {
	return len(text) >= 6 && len(text) <= 32 && strings.Trim(text, "0123456789abcdef") == ""
}

// parseValue parses the value of a target, which may be quoted if that isn't a word. Quotes around a
// word may as well be its own: in a log, the client "victim" looks like the client victim.
func parseValue(kind TargetKind, text string) (Target, error) {
	value, err := strconv.Unquote(text)
	switch {
	case err != nil || text[0] != '"' || value == "":
		return Target{Kind: kind, Value: text}, nil
	case IsWord(value):
		return Target{}, Errorf(http.StatusBadRequest,
			"client: got %s:%s: write %s:%s without quotes, or %s:%q if the quotes belong to it", kind, text, kind,
			value, kind, `"`+value+`"`)
	}
	return Target{Kind: kind, Value: value}, nil
}

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// IsWord reports whether a text is a word for every shell: it means only itself, and is no option.
func IsWord(text string) bool {
	return text != "" && text[0] != '-' && strings.Trim(text, alphanumeric+"._:/@-") == ""
}

// referenceScheme is the scheme of a reference as a URI.
const referenceScheme = "urn"

// referenceSize is the length of a reference in letters and digits, and shortReferenceSize that of
// its short form.
const (
	referenceSize      = 64
	shortReferenceSize = 10
)

// parseReference parses a reference without a kind in front, and removes the separators of its
// groups.
func parseReference(text string) (string, bool) {
	text = strings.NewReplacer(" ", "", "-", "").Replace(text)
	return text, strings.Trim(text, alphanumeric) == "" &&
		(len(text) == referenceSize || len(text) == shortReferenceSize)
}

// parseNetwork parses an address or a network, and nothing else.
func parseNetwork(text string) (netip.Prefix, bool) {
	if network, err := netip.ParsePrefix(text); err == nil {
		return network.Masked(), true
	}
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.Zone() != "" {
		return netip.Prefix{}, false
	}
	ip = ip.Unmap()
	return netip.PrefixFrom(ip, ip.BitLen()), true
}

// TellsAddress reports whether the target contains an address or a network, even as the text of a
// key.
func (t Target) TellsAddress() bool {
	if t.Kind != KeyText {
		return t.Kind == Address
	}
	_, ok := parseNetwork(t.Value)
	return ok
}

// String returns the text that names the target, as a word of the rules file.
func (t Target) String() string {
	switch quoted := strconv.Quote(t.Value); {
	case t.Kind != Address && (strings.ContainsAny(t.Value, " \t") || quoted != `"`+t.Value+`"`):
		return string(t.Kind) + ":" + quoted
	case t.Kind != Address:
		return string(t.Kind) + ":" + t.Value
	case t.Network.IsSingleIP():
		return t.Network.Addr().String()
	}
	return t.Network.String()
}
