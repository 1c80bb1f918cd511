package routes

import (
	"iter"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// all returns the handlers of a server, and those in their routes.
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

// each yields handlers and those in their routes, and reports whether all of them were wanted.
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

// ServedFolders returns the absolute paths of the folders whose files a server serves, as far as
// its config tells.
func ServedFolders(server *caddyhttp.Server) (folders []string) {
	var roots, inherited []string // those that file servers are given, and those of the others
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
		inherited = []string{"."} // as the file server does
	}
	if inherits {
		roots = append(roots, inherited...)
	}
	for _, root := range roots {
		root = caddy.NewReplacer().ReplaceKnown(root, "")
		if path, err := filepath.Abs(root); err == nil && !strings.Contains(root, "{") { // known when a request comes
			folders = append(folders, path)
		}
	}
	return folders
}
