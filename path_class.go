package tally

import (
	"cmp"
	"strings"
)

// pathClass returns the first segments of a path, with * for those that look like an id, a name or
// a token: they would tell who somebody is, and make every path another one.
func pathClass(path string) string {
	var class strings.Builder
	for range maxClassified {
		var segment string
		segment, path, _ = strings.Cut(strings.TrimLeft(path, "/"), "/")
		if segment == "" {
			break
		}
		class.WriteByte('/')
		class.WriteString(segmentClass(segment))
	}
	if strings.Trim(path, "/") != "" {
		class.WriteString("/…")
	}
	return cmp.Or(class.String(), "/")
}

// segmentClass returns a segment of a path, or * for one that is long, has more than three digits,
// or has other characters than names of pages and folders mostly have.
func segmentClass(segment string) string {
	digits := 0
	for _, c := range []byte(segment) {
		isDigit, isLetter := '0' <= c && c <= '9', 'a' <= c|0x20 && c|0x20 <= 'z'
		if isDigit {
			digits++
		}
		if !isDigit && !isLetter && !strings.ContainsRune("-._~", rune(c)) {
			return "*"
		}
	}
	if len(segment) > maxSegment || digits > 3 {
		return "*"
	}
	return segment
}

// Bounds of the class of a path.
const (
	maxClassified = 3  // segments
	maxSegment    = 24 // bytes; a longer one is an id
)
