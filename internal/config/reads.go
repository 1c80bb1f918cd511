package config

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// readsOf returns what matcher sets read of requests that programs may read in several ways.
func readsOf(sets ...caddyhttp.RawMatcherSets) (reads enforce.Reads) {
	isOther := func(name string) bool { return !enforce.MayHaveSeveral(name) }
	for _, set := range slices.Concat(sets...) {
		names, words := NamesOfSet(set), []string(nil)
		for _, raw := range set {
			var value any
			_ = json.Unmarshal(raw, &value) // loading reports any error
			words = wordsIn(value, words)
		}
		if names = slices.DeleteFunc(names, isOther); len(names) > 0 {
			reads.Names, reads.Words = append(reads.Names, names...), append(reads.Words, words...)
		}
	}
	reads.Names = slices.Compact(slices.Sorted(slices.Values(reads.Names)))
	reads.Words = slices.Compact(slices.Sorted(slices.Values(reads.Words)))
	slices.SortStableFunc(reads.Words, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	if len(reads.Words) > 0 {
		quoted := make([]string, len(reads.Words))
		for i, word := range reads.Words {
			quoted[i] = regexp.QuoteMeta(word)
		}
		reads.Find = regexp.MustCompile("(?i)" + strings.Join(quoted, "|"))
	}
	return reads
}

// The words in the texts of matchers: what is quoted in expressions, and letters that aren't part of a placeholder or
// of a class of characters.
var (
	quotedText = regexp.MustCompile(`"([^"]+)"|'([^']+)'`)
	letters    = regexp.MustCompile(`\\.|\{[^}]*\}|\[[^]]*\]|(\pL+)`)
)

// wordsIn appends the words in the texts of a JSON value that a field may be compared with.
func wordsIn(value any, words []string) []string {
	switch value := value.(type) {
	case string:
		var texts []string
		for _, found := range quotedText.FindAllStringSubmatch(value, -1) {
			texts = append(texts, found[1]+found[2])
		}
		if texts == nil {
			texts = []string{value}
		}
		for _, text := range texts {
			words = append(words, text)
			for _, found := range letters.FindAllStringSubmatch(text, -1) {
				words = append(words, found[1])
			}
		}
	case []any:
		for _, element := range value {
			words = wordsIn(element, words)
		}
	case map[string]any:
		for _, element := range value {
			words = wordsIn(element, words)
		}
	}
	return slices.DeleteFunc(words, func(word string) bool { return word == "" })
}
