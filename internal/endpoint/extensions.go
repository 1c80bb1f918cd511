package endpoint

import "strings"

// longestExtension is that of the longest one in the lists below.
const longestExtension = 6

// scripts are extensions of programs. What follows one in a path is handed to it
// as PATH_INFO: /index.php/login.
var scripts = setOf(`php php3 php4 php5 php7 php8 phtml phar inc cgi fcgi pl py rb lua wsgi dll exe
	asp aspx ashx asmx axd jsp jspx jsf do action cfm`)

// files are extensions of files and formats. A path that ends with one may be
// taken for a file of the page before it: /login/x.css.
var files = setOf(`html htm xhtml shtml json jsonp xml yaml yml css js mjs map txt md csv tsv rss atom ics
	ico png jpg jpeg gif svg webp avif bmp woff woff2 ttf otf eot pdf zip gz mp3 mp4 webm wasm swf`)

func setOf(words string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// isScript reports whether a segment has the extension of a program.
func isScript(segment string) bool { return hasExtension(segment, scripts) }

// isFile reports whether a segment has the extension of a program, a file or a
// format.
func isFile(segment string) bool {
	return hasExtension(segment, scripts) || hasExtension(segment, files)
}

func hasExtension(segment string, of map[string]bool) bool {
	dot := strings.LastIndexByte(segment, '.')
	if dot < 0 || len(segment)-dot-1 > longestExtension {
		return false
	}
	var lowered [longestExtension]byte
	n := copy(lowered[:], segment[dot+1:])
	for i := range n {
		lowered[i] = lower[lowered[i]]
	}
	return of[string(lowered[:n])]
}
