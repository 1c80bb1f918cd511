package wording

import "strings"

// Shortened returns at most the first `most` bytes of a text, without cutting a character.
func Shortened(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
