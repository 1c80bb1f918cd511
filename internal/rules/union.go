package rules

import "slices"

// Union returns the set of the rules of two sets, either of which may be nil.
func Union(a, b *Set) *Set {
	switch {
	case b.IsEmpty():
		return a
	case a.IsEmpty():
		return b
	}
	return NewSet(slices.Concat(a.rules, b.rules))
}
