package rules

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"
)

// Set is a set of rules, such as those of one version of a file. It is immutable, and may be used
// from any number of goroutines. A nil Set is empty.
type Set struct {
	rules  []Rule // all, in their order
	texts  [kinds]map[string]verdict
	ends   [len(actionNames)][]int64 // ends of rules, ascending, by action
	total  [len(actionNames)]int     // number of rules by action
	has    [kinds]bool
	raises map[string]*Set // by zone: they are found apart from bans and allowances

	// The methods of a table of networks, if the set has any. With the table as a field, each package that
	// refers to a Set would compile all methods of the table again, some four hundred.
	lookup  func(netip.Addr) (verdict, bool)
	subnets func(netip.Prefix) iter.Seq2[netip.Prefix, verdict]
}

// verdict is the rules about one target. It is stored by value: in a large set each pointer that a
// lookup follows is a cache miss.
type verdict struct {
	against, favor term     // those that end last: see [Rule.Favors]
	wider          *verdict // of the next wider network; or nil
}

// term is a rule and its end, in seconds since the Unix epoch. The zero term has ended.
type term struct {
	until int64
	rule  *Rule
}

const never = math.MaxInt64

func termOf(s *Rule) term {
	if s.Until.IsZero() {
		return term{never, s}
	}
	return term{s.Until.Unix(), s}
}

// NewSet returns the set of some rules, each of which must pass [Rule.Check]. They must not be
// changed afterwards.
func NewSet(rules []Rule) *Set {
	s := &Set{rules: rules, raises: make(map[string]*Set)}
	networks := make(map[*Set]map[netip.Prefix]*verdict)
	for i := range rules {
		r := &rules[i]
		t := termOf(r)
		s.note(r, t)
		in := s
		if r.Action == Raise {
			if in = s.raises[r.Target.Zone]; in == nil {
				in = new(Set)
				s.raises[r.Target.Zone] = in
			}
		}
		in.has[r.Target.Kind] = true
		if r.Target.Kind != Address {
			in.addText(r, t)
			continue
		}
		if networks[in] == nil {
			networks[in] = make(map[netip.Prefix]*verdict)
		}
		v := networks[in][r.Target.Network]
		if v == nil {
			v = new(verdict)
			networks[in][r.Target.Network] = v
		}
		v.add(t)
	}
	for _, ends := range s.ends {
		slices.Sort(ends)
	}
	for in, all := range networks {
		in.addNetworks(all)
	}
	return s
}

// note counts a rule.
func (s *Set) note(r *Rule, t term) {
	s.total[r.Action]++
	if t.until != never {
		s.ends[r.Action] = append(s.ends[r.Action], t.until)
	}
}

func (s *Set) addText(r *Rule, t term) {
	texts := &s.texts[r.Target.Kind]
	if *texts == nil {
		*texts = make(map[string]verdict)
	}
	v := (*texts)[r.Target.Text]
	v.add(t)
	(*texts)[r.Target.Text] = v
}

func (v *verdict) add(t term) {
	to := &v.against
	if t.rule.Favors() {
		to = &v.favor
	}
	if t.until >= to.until {
		*to = t
	}
}

// addNetworks adds the widest networks first, so that each finds the next wider one.
func (s *Set) addNetworks(networks map[netip.Prefix]*verdict) {
	table := new(bart.Fast[verdict])
	for _, prefix := range slices.SortedFunc(maps.Keys(networks),
		func(a, b netip.Prefix) int { return cmp.Compare(a.Bits(), b.Bits()) }) {
		v := networks[prefix]
		if wider, _, ok := table.LookupPrefixLPM(prefix); ok {
			v.wider = networks[wider]
		}
		table.Insert(prefix, *v)
	}
	s.lookup, s.subnets = table.Lookup, table.Subnets
}

// IsEmpty reports whether there are no rules, in force or not.
func (s *Set) IsEmpty() bool { return s == nil || s.total == [len(actionNames)]int{} }

// Raises returns the raises for a limit of a zone, for the zone, and for all zones, as sets. Those that are found in
// the first one count. Each may be nil.
func (s *Set) Raises(zone, limit string) (found [3]*Set) {
	if s != nil && len(s.raises) > 0 {
		found = [...]*Set{s.raises[zone+"/"+limit], s.raises[zone], s.raises[""]}
	}
	return found
}

// Has reports whether there are rules about targets of a kind.
func (s *Set) Has(kind Kind) bool { return s != nil && s.has[kind] }

// Knows reports whether rules about targets of a kind are in force, raises included. It looks at all rules.
func (s *Set) Knows(kind Kind, now time.Time) bool {
	return s != nil && slices.ContainsFunc(s.rules, func(r Rule) bool {
		return r.Target.Kind == kind && now.Unix() < termOf(&r).until
	})
}

// Zones returns the zones that raises name.
func (s *Set) Zones() []string {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.raises)), func(zone string) bool { return zone == "" })
}

// InForce returns how many rules with an action have not ended.
func (s *Set) InForce(action Action, now time.Time) int {
	if s == nil {
		return 0
	}
	ended, _ := slices.BinarySearch(s.ends[action], now.Unix()+1)
	return s.total[action] - ended
}

// FindAddress returns the rule in force for an address, or nil. It is that of the longest prefix
// with a rule. One in favor of the client counts only if it has proved that the address is its own.
func (s *Set) FindAddress(addr netip.Addr, proved bool, now time.Time) *Rule {
	if !s.Has(Address) {
		return nil
	}
	v, _ := s.lookup(addr.Unmap().WithZone(""))
	return v.inForce(now.Unix(), proved)
}

// Exceptions returns the number of narrower networks with a rule in force that says something else, to
// which a network's rule doesn't apply.
func (s *Set) Exceptions(r Rule, now time.Time) (n int) {
	if s != nil && r.Action == Raise {
		s = s.raises[r.Target.Zone]
	}
	if !s.Has(Address) {
		return 0
	}
	for narrower, v := range s.subnets(r.Target.Network) {
		v.wider = nil
		if found := v.inForce(now.Unix(), true); narrower != r.Target.Network && found != nil &&
			(found.Action != r.Action || found.Percent != r.Percent) {
			n++
		}
	}
	return n
}

// Find returns the rule in force for a text that is a target of a kind other than [Address], or
// nil. One in favor of the client counts only if it has proved that the text is its own.
func (s *Set) Find(kind Kind, text string, proved bool, now time.Time) *Rule {
	if !s.Has(kind) {
		return nil
	}
	v := s.texts[kind][text]
	return v.inForce(now.Unix(), proved)
}

func (v *verdict) inForce(now int64, proved bool) *Rule {
	for ; v != nil; v = v.wider {
		if proved && now < v.favor.until {
			return v.favor.rule
		}
		if now < v.against.until {
			return v.against.rule
		}
	}
	return nil
}
