// Package readahead reads the beginnings of requests' bodies before later handlers do, within a
// bound on the memory of all of them, and gives them back byte for byte. It knows nothing of what
// the bytes are for.
package readahead
