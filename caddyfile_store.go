package tally

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// guestStores are the stores that a Caddy has only if it was built with their packages,
// which are in the folder storage.
var guestStores = []string{"redis", "postgres", "mysql"}

// unknownStore returns an error about the name of a store that this Caddy doesn't have.
func unknownStore(d *caddyfile.Dispenser, name string) error {
	if slices.Contains(guestStores, name) {
		return d.Errf("store: this Caddy was built without %q: build it with xcaddy build --with %s --with %[2]s/storage/%[1]s", name, modulePath)
	}
	if scheme, _, isURL := strings.Cut(name, "://"); isURL {
		// A URL may hold a password, which is not for messages.
		return d.Errf("store: the name of a store comes first, got a URL: write store %s %s://…", storeOfScheme(scheme), scheme)
	}
	if strings.Contains(name, "/") {
		return d.Errf("store: the name of a store comes first, got %q: write store sqlite %[1]s", name)
	}
	return d.Errf("store: there is no %q: write %s", name, caddyconf.OrList(storeNames()))
}

// storeOfScheme returns the store whose URLs begin like that.
func storeOfScheme(scheme string) string {
	switch {
	case strings.HasPrefix(scheme, "postgres"):
		return "postgres"
	case strings.HasPrefix(scheme, "mysql"), strings.HasPrefix(scheme, "mariadb"):
		return "mysql"
	default:
		return "redis"
	}
}

// storeNames returns the stores that there are.
func storeNames() (names []string) {
	for _, store := range caddy.GetModules("rate_limit.stores") {
		names = append(names, store.ID.Name())
	}
	return names
}
