package endpoint

import "strings"

// spelling is a path in one of its readings, with the positions where programs may split it.
type spelling struct {
	text    string
	file    int // start of the extension of the last file, or -1
	ends    [maxScripts]uint16
	scripts int  // number of ends: the positions after scripts
	crowded bool // there are more of them
}

// maxScripts is the most scripts of a path that is compared. A path with more may be that of any
// endpoint.
const maxScripts = 8

func newSpelling(text string) spelling {
	s := spelling{text: text, file: -1}
	if strings.IndexByte(text, '.') < 0 {
		return s
	}
	s.file = lastFile(text)
	for at := afterScript(text, 0); at >= 0; at = afterScript(text, at) {
		if s.scripts == maxScripts {
			s.crowded = true
			break
		}
		s.ends[s.scripts] = uint16(at)
		s.scripts++
	}
	return s
}

// afterScript returns the position after the first script from a position on, or -1.
func afterScript(s string, from int) int {
	for dot := from; ; {
		i := strings.IndexByte(s[dot:], '.')
		if i < 0 {
			return -1
		}
		dot += i
		slash := strings.IndexByte(s[dot:], '/')
		if slash < 0 {
			return -1
		}
		if end := dot + slash; isScript(s[dot:end]) {
			return end
		}
		dot += slash
	}
}

// lastFile returns the start of the extension of the last file in a path, or -1.
func lastFile(s string) int {
	for end := len(s); ; {
		dot := strings.LastIndexByte(s[:end], '.')
		if dot < 0 {
			return -1
		}
		stop := strings.IndexByte(s[dot:end], '/')
		if stop < 0 {
			stop = end - dot
		}
		if isFile(s[dot : dot+stop]) {
			return dot
		}
		end = dot
	}
}
