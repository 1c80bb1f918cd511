package rules

import "fmt"

// Trust restricts the rules of an import. The zero value is for a list from elsewhere: bans only,
// and not of a network that is a large part of the internet.
type Trust struct {
	Allow bool // accepts allowances and raises
	Wide  bool // accepts networks wider than wide4 and wide6
}

// The widest networks that are accepted without Wide. No provider has been assigned a wider one in
// one piece.
const (
	wide4 = 8
	wide6 = 19
)

// Check returns an error if a rule isn't accepted.
func (t Trust) Check(s Rule) error {
	switch {
	case s.Action != Ban && !t.Allow:
		return fmt.Errorf(
			"got %s, expected clients to ban: a list may %v clients only with --allow (in JSON: \"allow\": true)",
			quoted(s.about()), s.Action)
	case s.Target.IsWide() && !t.Wide:
		return fmt.Errorf("got %v, expected a network of at most /%d (IPv6: /%d), since a wider one has a large part of all visitors: if that is meant, add --force (in JSON: \"force\": true; on the dashboard: the box)", s.Target, wide4, wide6)
	}
	return nil
}

// IsWide reports whether the target is a network with a large part of all addresses.
func (t Target) IsWide() bool {
	bits := wide6
	if t.Network.Addr().Is4() {
		bits = wide4
	}
	return t.Kind == Address && t.Network.Bits() < bits
}
