package apikeys

import (
	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// maxFile bounds the part of a file that is read: some 500,000 keys.
const maxFile = 64 << 20

// File is a file of keys that is read again when it has changed. Each use of its [textfile.File.Fresh] keys checks the
// file, at most once a second, so it needs no goroutine and no Close. It may be used from any number of goroutines.
type File = textfile.File[Set]

// Open reads a file. A missing file has no keys until it exists. After the file was read again, changed is called with
// the new keys, or with the error because of which the old ones stay in force: once for each change of the file, on the
// goroutine that used it.
func Open(path string, tiers []string, changed func(*Set, error)) (*File, error) {
	return textfile.Open(textfile.Options[Set]{
		Prefix:  "apikeys",
		Path:    path,
		MaxSize: maxFile,
		Parse:   func(text []byte) (*Set, error) { return Parse(text, tiers) },
		Changed: changed,
	})
}
