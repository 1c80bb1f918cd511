package config

import (
	"reflect"
	"slices"
	"testing"
)

// Each option of a zone is a word of ours, except for those of mholt/caddy-ratelimit and those that need another one.
func TestOwnWordsAreAllOptions(t *testing.T) {
	others := []string{"Name", "MatcherSetsRaw", "Key", "Window", "MaxEvents", "IPv4Prefix", "IPv6Prefix", "Source",
		"MaxDelay", "PassHeader", "DefaultTier"}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[Zone]()) {
		if slices.Contains(others, field.Name) {
			continue
		}
		z := new(Zone)
		switch value := reflect.ValueOf(z).Elem().Field(i); value.Kind() {
		case reflect.Bool:
			value.SetBool(true)
		case reflect.String:
			value.SetString("x")
		case reflect.Slice:
			value.Set(reflect.MakeSlice(field.Type, 1, 1))
		case reflect.Pointer:
			value.Set(reflect.New(field.Type.Elem()))
		default:
			value.SetInt(1)
		}
		if !z.HasOwnWords() {
			t.Errorf("HasOwnWords doesn't know %s", field.Name)
		}
	}
}
