package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// UnmarshalJSON implements json.Unmarshaler.
func (a *App) UnmarshalJSON(raw []byte) error {
	type plain App
	return unmarshalStrictly(raw, (*plain)(a))
}

// UnmarshalJSON implements json.Unmarshaler. The name of the module may be among the fields.
func (h *Handler) UnmarshalJSON(raw []byte) error {
	type plain Handler
	return unmarshalStrictly(raw, &struct {
		*plain
		Module string `json:"handler"`
	}{plain: (*plain)(h)})
}

// UnmarshalJSON implements json.Unmarshaler. The name of the module may be among the fields.
func (p *Permission) UnmarshalJSON(raw []byte) error {
	type plain Handler
	return unmarshalStrictly(raw, &struct {
		*plain
		Other  *json.RawMessage `json:"permission"`
		Module string           `json:"module"`
	}{plain: (*plain)(&p.Handler), Other: &p.PermissionRaw})
}

// UnmarshalJSON implements json.Unmarshaler. The name of the module may be among the fields.
func (dash *Dashboard) UnmarshalJSON(raw []byte) error {
	type plain Dashboard
	return unmarshalStrictly(raw, &struct {
		*plain
		Module string `json:"handler"`
	}{plain: (*plain)(dash)})
}

// unmarshalStrictly decodes JSON. The error about an unknown field says where it is, and what is known
// there.
func unmarshalStrictly(raw []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(to)
	if err != nil && strings.Contains(err.Error(), "unknown field") {
		return cmp.Or(unknownField(raw, reflect.TypeOf(to), ""), err)
	}
	return err
}

// unknownField returns an error about the first field of a JSON value that a type doesn't have, or nil.
// Maps and slices of JSON that isn't decoded have all fields.
func unknownField(raw json.RawMessage, t reflect.Type, path string) error {
	switch t.Kind() {
	case reflect.Pointer:
		return unknownField(raw, t.Elem(), path)
	case reflect.Slice:
		var elements []json.RawMessage
		_ = json.Unmarshal(raw, &elements) // if it is something else, decoding reports that
		for i, element := range elements {
			if err := unknownField(element, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Map, reflect.Struct:
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(raw, &fields)
		known := knownFields(t)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			field, isKnown := known[strings.ToLower(name)]
			if t.Kind() == reflect.Map {
				field, isKnown = t.Elem(), true
			}
			if !isKnown {
				delete(known, "handler")
				words := slices.Sorted(maps.Keys(known))
				return fmt.Errorf("%sunknown field %q: %s", strings.TrimPrefix(path+": ", ": "), name,
					cmp.Or(caddyconf.DidYouMean(name, words), "expected "+caddyconf.OrList(words)))
			}
			if err := unknownField(fields[name], field, strings.TrimPrefix(path+"."+name, ".")); err != nil {
				return err
			}
		}
	}
	return nil
}

// knownFields returns the types of a struct's fields by their names in JSON, which are in lower case.
func knownFields(t reflect.Type) map[string]reflect.Type {
	known := make(map[string]reflect.Type)
	if t.Kind() != reflect.Struct {
		return known
	}
	for _, field := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			known[name] = field.Type
		}
	}
	return known
}
