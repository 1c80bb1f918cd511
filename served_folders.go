package tally

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// servedRoots are what the file servers of one server serve, as far as a
// configuration tells.
type servedRoots struct {
	own   []string // the roots that they are given
	vars  []string // the roots that are set for those that are given none
	other bool     // that there are such
}

// servedFolders returns the absolute paths of the folders that a server serves. Some of
// its handlers are provisioned already, others not yet.
func servedFolders(server *caddyhttp.Server) (roots []string) {
	var s servedRoots
	s.addRoutes(server.Routes)
	if server.Errors != nil {
		s.addRoutes(server.Errors.Routes)
	}
	for _, route := range server.NamedRoutes {
		s.addRoutes(caddyhttp.RouteList{*route})
	}
	if s.other && len(s.vars) == 0 {
		s.vars = []string{"."} // as the file server does
	}
	if s.other {
		s.own = append(s.own, s.vars...)
	}
	for _, root := range s.own {
		root = caddy.NewReplacer().ReplaceKnown(root, "")
		if path, err := filepath.Abs(root); err == nil && !strings.Contains(root, "{") { // known when a request comes
			roots = append(roots, path)
		}
	}
	return roots
}

func (s *servedRoots) addRoutes(routes caddyhttp.RouteList) {
	for _, route := range routes {
		for _, raw := range route.HandlersRaw {
			var value any
			if json.Unmarshal(raw, &value) == nil {
				s.addRaw(value)
			}
		}
		for _, handler := range route.Handlers {
			s.addHandler(handler)
		}
	}
}

// addRaw adds what is in a handler that isn't provisioned yet, or in any part of
// it.
func (s *servedRoots) addRaw(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			s.addRaw(element)
		}
	case map[string]any:
		name, _ := value["handler"].(string)
		s.add(name, value)
		for _, field := range value {
			s.addRaw(field)
		}
	}
}

func (s *servedRoots) addHandler(handler caddyhttp.MiddlewareHandler) {
	switch handler := handler.(type) {
	case *caddyhttp.Subroute:
		s.addRoutes(handler.Routes)
		if handler.Errors != nil {
			s.addRoutes(handler.Errors.Routes)
		}
	case caddy.Module:
		name := handler.CaddyModule().ID.Name()
		if name != "vars" && name != "file_server" {
			return
		}
		var fields map[string]any
		if raw, err := json.Marshal(handler); err == nil && json.Unmarshal(raw, &fields) == nil {
			s.add(name, fields)
		}
	}
}

// add adds a handler with a name, if it has to do with serving files.
func (s *servedRoots) add(name string, fields map[string]any) {
	root, _ := fields["root"].(string)
	switch {
	case name == "vars" && root != "":
		s.vars = append(s.vars, root)
	case name == "file_server" && (root == "" || root == "{http.vars.root}"):
		s.other = true
	case name == "file_server":
		s.own = append(s.own, root)
	}
}
