package tally

// This file finds out what a handler sets in a request.

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// sets is what a number of handlers may set in a request: names of placeholders, without
// braces, and families of them that end with a dot.
type sets struct {
	names    map[string]bool
	anything bool // there is a handler among them of which that isn't known
}

// has reports whether the handlers are known to set a placeholder.
func (s *sets) has(name string) bool {
	if s.names[name] {
		return true
	}
	for i := range name {
		if name[i] == '.' && s.names[name[:i+1]] {
			return true
		}
	}
	return false
}

func (s *sets) addRoutes(routes caddyhttp.RouteList) {
	for _, route := range routes {
		for _, raw := range route.HandlersRaw {
			s.addJSON(raw)
		}
		for _, handler := range route.Handlers {
			module, ok := handler.(caddy.Module)
			if !ok {
				s.anything = true
				continue
			}
			s.addModule(module)
			for _, nested := range nestedRoutes(module) {
				s.addRoutes(nested)
			}
		}
	}
}

// addModule adds what a handler sets itself, not what is in routes of its own.
func (s *sets) addModule(m caddy.Module) {
	var fields map[string]any
	name := m.CaddyModule().ID.Name()
	if slices.Contains([]string{"vars", "map", "headers"}, name) {
		if raw, err := json.Marshal(m); err == nil {
			_ = json.Unmarshal(raw, &fields) // what is no object has no fields
		}
	}
	s.add(name, fields)
}

// addJSON adds what handlers set that aren't provisioned yet, with all that is in them.
func (s *sets) addJSON(raw json.RawMessage) {
	var value any
	if json.Unmarshal(raw, &value) == nil {
		s.addValue(value)
	}
}

func (s *sets) addValue(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			s.addValue(element)
		}
	case map[string]any:
		if name, ok := value["handler"].(string); ok {
			s.add(name, value)
		}
		for _, field := range value {
			s.addValue(field)
		}
	}
}

// add adds what a handler with a name sets.
func (s *sets) add(name string, fields map[string]any) {
	switch name {
	case "authentication":
		s.names["http.auth."] = true
	case "reverse_proxy", "intercept":
		s.names["http."+name+"."] = true
	case "vars":
		for key := range fields {
			s.names["http.vars."+key] = true
		}
	case "map":
		destinations, _ := fields["destinations"].([]any)
		for _, destination := range destinations {
			if text, ok := destination.(string); ok {
				s.names[strings.Trim(text, "{}")] = true
			}
		}
	case "headers":
		s.addFields("http.request.header.", fields["request"])
		s.addFields("http.response.header.", fields["response"])
	case "invoke":
		s.anything = true
	default:
		s.anything = s.anything || !isOfCaddy(name)
	}
}

// addFields adds the header fields that some of the operations of the headers handler
// write or remove.
func (s *sets) addFields(family string, operations any) {
	all, _ := operations.(map[string]any)
	for _, operation := range []string{"set", "add", "replace"} {
		fields, _ := all[operation].(map[string]any)
		for field := range fields {
			s.names[family+http.CanonicalHeaderKey(field)] = true
		}
	}
	removed, _ := all["delete"].([]any)
	for _, field := range removed {
		if text, ok := field.(string); ok {
			s.names[family+http.CanonicalHeaderKey(text)] = true
		}
	}
}

// isOfCaddy reports whether a handler is Caddy's or ours, so that it is known what it sets.
func isOfCaddy(name string) bool {
	info, err := caddy.GetModule("http.handlers." + name)
	if err != nil {
		return false
	}
	pkg := placeholder.PackageOf(info.New())
	return placeholder.IsCaddy(pkg) || placeholder.IsOurs(pkg)
}

// nestedRoutes returns the routes of a handler's own, those for errors last.
func nestedRoutes(handler any) (lists []caddyhttp.RouteList) {
	v := reflect.Indirect(reflect.ValueOf(handler))
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		switch field := v.Field(i).Interface().(type) {
		case caddyhttp.RouteList:
			lists = append(lists, field)
		case *caddyhttp.HTTPErrorConfig:
			if field != nil {
				lists = append(lists, field.Routes)
			}
		case []caddyhttp.ResponseHandler:
			for _, handler := range field {
				lists = append(lists, handler.Routes)
			}
		}
	}
	return lists
}
