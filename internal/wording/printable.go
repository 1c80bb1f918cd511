package wording

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable returns a text that is safe for a terminal: unprintable characters, such as escape
// characters or those that change the direction of writing, are escaped as in Go. Characters of
// keep stay unchanged.
func Printable(text, keep string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !strconv.IsPrint(r) && !strings.ContainsRune(keep, r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// WriteJSON writes a value as JSON that is safe for a terminal.
func WriteJSON(w io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(printableJSON(text), '\n'))
	return err
}

// printableJSON makes the strings of JSON printable. Between its strings JSON has only white space.
func printableJSON(text []byte) []byte {
	var b []byte
	for _, r := range string(text) {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}
