package endpoint

import "strings"

// longestExtension is the length of the longest extension in the lists below.
const longestExtension = 6

// extensions are the extensions at which programs split paths; true marks those of scripts. The
// text after a script in a path is passed to it as PATH_INFO: /index.php/login. A path that ends
// with a file or a format may be taken for a file of the page before it: /login/x.css.
var extensions = func() map[string]bool {
	all := make(map[string]bool)
	for extension := range strings.FieldsSeq(files) {
		all[extension] = false
	}
	for extension := range strings.FieldsSeq(scripts) {
		all[extension] = true
	}
	return all
}()

const (
	scripts = `php php2 php3 php4 php5 php6 php7 php8 pht phtml phpt phar inc cgi fcgi pl py rb lua wsgi dll exe
		asp aspx ashx asmx svc axd jsp jspx jspa jspf jsf do action cfm cfc cfml`
	files = `html htm xhtml shtml json jsonp xml yaml yml css js mjs map txt md csv tsv rss atom ics
		ico png jpg jpeg gif svg webp avif bmp woff woff2 ttf otf eot pdf zip gz mp3 mp4 webm wasm swf`
)

// isScript reports whether a segment has the extension of a program.
func isScript(segment string) bool {
	script, _ := extensionOf(segment)
	return script
}

// isFile reports whether a segment has the extension of a program, a file or a
// format.
func isFile(segment string) bool {
	_, found := extensionOf(segment)
	return found
}

func extensionOf(segment string) (script, found bool) {
	dot := strings.LastIndexByte(segment, '.')
	if n := len(segment) - dot - 1; dot < 0 || n < 2 || n > longestExtension {
		return false, false
	}
	var lowered [longestExtension]byte
	n := copy(lowered[:], segment[dot+1:])
	for i := range n {
		lowered[i] = lower[lowered[i]]
	}
	script, found = extensions[string(lowered[:n])]
	return script, found
}
