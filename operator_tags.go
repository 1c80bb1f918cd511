package tally

import (
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// tagSize is the number of hexadecimal digits of a tag.
const tagSize = 6

// tag returns the short name by which lists tell clients apart whose addresses are masked: the
// beginning of the client's opaque name, {http.rate_limit.client}. It is the same in all zones and
// on all machines that share a secret. It is "" for a key that isn't one client's, and while the
// secret can't be read.
func (h *instance) tag(key string) string {
	name := h.fullTag([]byte(key))
	return name[:min(tagSize, len(name))]
}

// fullTag returns the opaque name that a tag is the beginning of, or "".
func (h *instance) fullTag(key []byte) string {
	if len(key) == 0 || key[0] == identity.TagEveryone || key[0] == identity.TagUnknown {
		return ""
	}
	name, ok := h.opaqueName(key, key[0] == identity.TagSession || key[0] == identity.TagAPIKey)
	if !ok {
		return ""
	}
	return hex.EncodeToString(name[:])
}

// tag returns the tag of the target's client, or "" if the target isn't one client.
func (t *target) tag() string {
	switch t.Kind {
	case operator.Address:
		return t.instance.tag(string(t.networkKey(t.app.prefixes(0, 0))))
	case operator.KeyText:
		return t.instance.tag(string(textKey(t.Value)))
	case operator.APIKey:
		return t.instance.tag(string(identity.TagAPIKey) + t.Value)
	}
	return ""
}

// tag returns the tag of a key, or "" while there is no instance.
func (a *App) tag(key string) string {
	if h := a.instance.Load(); h != nil {
		return h.tag(key)
	}
	return ""
}

// tagOf returns the tag of the client that a text names, or "".
func (a *App) tagOf(h *instance, client string) string {
	named, err := operator.ParseTarget(client)
	if err != nil {
		return ""
	}
	return (&target{Target: named, app: a, instance: h}).tag()
}

// resolveTag makes a target that is a tag the client that memory knows by it.
func (t *target) resolveTag() error {
	tag, clients := strings.ToLower(t.Value), make(map[string]bool)
	has := func(key []byte) bool { return strings.HasPrefix(t.instance.fullTag(key), tag) }
	for _, k := range t.instance.engine.Keys(engine.KeysQuery{N: operator.MaxItems, Match: func(_ storage.LimitID, key []byte) bool { return has(key) }}) {
		clients[targetOf(k.Key)] = true
	}
	for _, c := range t.instance.engine.Clients(engine.ClientsQuery{N: operator.MaxItems, Match: has}) {
		clients[targetOf(c.Key)] = true
	}
	delete(clients, "") // those that can't be named
	switch len(clients) {
	case 0:
		return operator.Errorf(http.StatusNotFound, "client: memory holds no client with the tag %s: tags of addresses change every day (UTC); name it by its address, api-key:NAME or key:TEXT", t.Value)
	case 1:
		for client := range clients {
			named, err := operator.ParseTarget(client)
			t.Target = named
			return err
		}
	}
	return operator.Errorf(http.StatusConflict, "client: %d clients have the tag %s: name the one you mean by its address, api-key:NAME or key:TEXT", len(clients), t.Value)
}
