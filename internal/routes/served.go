package routes

import (
	"iter"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// all yields the handlers of a server, including nested ones.
func all(server *caddyhttp.Server) iter.Seq[Node] {
	lists := []caddyhttp.RouteList{server.Routes}
	if server.Errors != nil {
		lists = append(lists, server.Errors.Routes)
	}
	for _, route := range server.NamedRoutes {
		lists = append(lists, caddyhttp.RouteList{*route})
	}
	return func(yield func(Node) bool) {
		for _, list := range lists {
			if !each(Handlers(Of(list)), yield) {
				return
			}
		}
	}
}

// each yields handlers and nested ones, and reports whether the iteration was completed.
func each(handlers []Node, yield func(Node) bool) bool {
	for _, n := range handlers {
		if !yield(n) {
			return false
		}
		for _, list := range n.Lists {
			if !each(Handlers(list.Routes), yield) {
				return false
			}
		}
	}
	return true
}

// ServedFolders returns the absolute paths of the folders that a server's file servers serve,
// according to its config.
func ServedFolders(server *caddyhttp.Server) (folders []string) {
	var roots, inherited []string // explicit roots of file servers, and roots for the others
	inherits := false
	for n := range all(server) {
		root, _ := n.Fields["root"].(string)
		switch {
		case n.Name == "vars" && root != "":
			inherited = append(inherited, root)
		case n.Name == "file_server" && (root == "" || root == "{http.vars.root}"):
			inherits = true
		case n.Name == "file_server":
			roots = append(roots, root)
		}
	}
	if inherits && len(inherited) == 0 {
		inherited = []string{"."} // the file server's default
	}
	if inherits {
		roots = append(roots, inherited...)
	}
	for _, root := range roots {
		root = caddy.NewReplacer().ReplaceKnown(root, "")
		if path, err := filepath.Abs(root); err == nil && !strings.Contains(root, "{") { // otherwise known only during a request
			folders = append(folders, path)
		}
	}
	return folders
}
