package language

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every text exists in every language, with its values, and without HTML.
func TestEveryTextIsThereInEveryLanguage(t *testing.T) {
	if got := tags(); !slices.Equal(got, []string{"en", "de", "fr", "es", "pt", "it", "nl", "pl", "ja", "zh"}) {
		t.Errorf("the languages are %v", got)
	}
	for _, texts := range All() {
		value := reflect.ValueOf(*texts)
		for i := range value.NumField() {
			name := texts.Tag + "." + value.Type().Field(i).Name
			switch field := value.Field(i).Interface().(type) {
			case string:
				checkText(t, name, field, map[string]string{"Come": "%s", "Waits": "%s", "Line": "%s"}[value.Type().Field(i).Name])
			case [4]Forms:
				for _, forms := range field {
					for _, form := range []string{forms.One, forms.Few} {
						if form != "" {
							checkText(t, name, form, "%d")
						}
					}
					checkText(t, name, forms.Other, "%d")
				}
			default:
				t.Errorf("%s is a %T, which this test does not know", name, field)
			}
		}
	}
}

// A text with a name that no page knows would never be seen.
func TestTheFileHasNoOtherTexts(t *testing.T) {
	d := json.NewDecoder(bytes.NewReader(file))
	d.DisallowUnknownFields()
	if err := d.Decode(new([]*Texts)); err != nil {
		t.Error(err)
	}
}

// checkText checks a text that contains a verb of fmt once, or none if verb is "".
func checkText(t *testing.T, name, text, verb string) {
	t.Helper()
	rest := text
	if verb != "" {
		rest = strings.Replace(text, verb, "", 1)
	}
	if rest == "" || strings.TrimSpace(text) != text || strings.ContainsAny(rest, `%<>&"`) || verb != "" && rest == text {
		t.Errorf("%s is %q", name, text)
	}
}

func tags() (list []string) {
	for _, texts := range All() {
		list = append(list, texts.Tag)
	}
	return list
}

// No text is another language's, which was copied and not translated. Names of things that are
// the same word in two languages are few.
func TestTextsAreTranslated(t *testing.T) {
	seen := make(map[string]string)
	for _, texts := range All() {
		value := reflect.ValueOf(*texts)
		for i := range value.NumField() {
			text, ok := value.Field(i).Interface().(string)
			if !ok || len(text) < 12 {
				continue
			}
			name := texts.Tag + "." + value.Type().Field(i).Name
			if other := seen[text]; other != "" {
				t.Errorf("%s and %s are both %q", name, other, text)
			}
			seen[text] = name
		}
	}
}

// Package page compares a browser's texts for the same numbers.
func TestWait(t *testing.T) {
	for tag, want := range map[string][]string{
		"en": {"in 1 second", "in 42 seconds", "in 2 minutes", "in 1 day"},
		"de": {"in 1 Sekunde", "in 42 Sekunden", "in 2 Minuten", "in 1 Tag"},
		"pl": {"za 1 sekundę", "za 42 sekundy", "za 2 minuty", "za 1 dzień"},
		"nl": {"over 1 seconde", "over 42 seconden", "over 2 minuten", "over 1 dag"},
		"ja": {"1 秒後", "42 秒後", "2 分後", "1 日後"},
	} {
		texts := find(tag)
		for i, d := range []time.Duration{time.Second, 41*time.Second + 1, 2 * time.Minute, 24 * time.Hour} {
			if got := texts.Wait(d); got != want[i] {
				t.Errorf("%s: %v is %q, want %q", tag, d, got, want[i])
			}
		}
		if got := texts.Wait(0); got != "" {
			t.Errorf("%s: no time is %q", tag, got)
		}
	}
	polish := find("pl")
	for n, want := range map[int]string{5: "5 sekund", 12: "12 sekund", 13: "13 sekund", 14: "14 sekund", 21: "21 sekund", 22: "22 sekundy", 24: "24 sekundy", 25: "25 sekund"} {
		if got := polish.Wait(time.Duration(n) * time.Second); got != "za "+want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	for accept, want := range map[string]string{
		"": "en", "*": "en", "de": "de", "DE-at": "de", "pt-BR,pt;q=0.9,en;q=0.8": "pt", "zh-Hant-TW, en;q=0.5": "zh",
		"sv, da;q=0.9": "en", "sv, da;q=0.9, nl;q=0.1": "nl", "en;q=0.5, fr;q=0.6": "fr", "fr;q=0.5, it;q=0.5": "fr",
		"fr;q=0, it;q=0.001": "it", "fr;q=2, it;q=NaN, pl;q=-1, ja;q=x, es;level=1": "en", "de ; q = 1": "de",
		"english": "en", "den, de;q=0.2": "de", ",,;,ja": "ja", strings.Repeat("sv,", maxRanges) + "ja": "en",
	} {
		if got := Choose(accept).Tag; got != want {
			t.Errorf("%q is %s, want %s", accept, got, want)
		}
	}
}

func FuzzChoose(f *testing.F) {
	for _, seed := range []string{"de-AT,de;q=0.9,*;q=0.1", ",;=,;q=", "en;q=1e400"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		chosen := Choose(accept)
		if !slices.Contains(tags(), chosen.Tag) {
			t.Errorf("%q is %q", accept, chosen.Tag)
		}
		if chosen != english && !strings.Contains(strings.ToLower(accept), chosen.Tag) {
			t.Errorf("%q is %q, which it doesn't have", accept, chosen.Tag)
		}
	})
}
