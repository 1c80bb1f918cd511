package language

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

//go:embed languages.json
var file []byte

// all has the texts in every language, English first.
var all = parse()

func parse() (all []*Texts) {
	if err := json.Unmarshal(file, &all); err != nil {
		panic(fmt.Errorf("languages.json: %w", err)) // a test reads the same file
	}
	return all
}

// english is the default language.
var english = all[0]

// All returns the texts in every language, English first.
func All() []*Texts { return all }

// maxRanges bounds how many languages of a field are examined. Browsers send less than ten.
const maxRanges = 32

// Choose returns the texts in the language with the highest weight in an Accept-Language field, the
// first of several (RFC 9110, section 12.5.4). Of a tag such as pt-BR the first part counts. If no
// language is available, the texts are in English.
func Choose(accept string) *Texts {
	best, weight := english, 0.0
	for range maxRanges {
		var item string
		item, accept, _ = strings.Cut(accept, ",")
		tag, parameters, _ := strings.Cut(item, ";")
		if w := weightOf(parameters); w > weight {
			if t := find(strings.TrimSpace(tag)); t != nil {
				best, weight = t, w
			}
		}
		if accept == "" {
			break
		}
	}
	return best
}

// find returns the texts in the language of a tag, or nil.
func find(tag string) *Texts {
	primary, _, _ := strings.Cut(tag, "-")
	for _, t := range all {
		if strings.EqualFold(t.Tag, primary) {
			return t
		}
	}
	return nil
}

// weightOf returns the weight among the parameters of a language: 1 if there is none, and 0 if it
// is invalid.
func weightOf(parameters string) float64 {
	name, value, _ := strings.Cut(strings.TrimSpace(parameters), "=")
	if name == "" {
		return 1
	}
	weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	// false for NaN
	if !strings.EqualFold(strings.TrimSpace(name), "q") || err != nil || !(weight >= 0 && weight <= 1) {
		return 0
	}
	return weight
}
