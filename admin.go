package tally

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// Admin reports the health of the stores on Caddy's admin endpoint: GET /rate_limit/
// returns an array with an object for each of them, and what is wrong with the file of API
// keys. It says nothing about clients.
type Admin struct{}

func init() {
	caddy.RegisterModule(Admin{})
}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.rate_limit",
		New: func() caddy.Module { return new(Admin) },
	}
}

// Routes implements caddy.AdminRouter.
func (Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/rate_limit/{$}", Handler: caddy.AdminHandlerFunc(serveHealth)},
	}
}

// health is the state of one store and of the memory in front of it.
type health struct {
	Store    string     `json:"store"`
	Path     string     `json:"path,omitempty"` // "" if it has no files
	Degraded bool       `json:"degraded"`
	Since    *time.Time `json:"since,omitempty"`  // when that began
	Reason   string     `json:"reason,omitempty"` // what went wrong last
	Keys     int64      `json:"keys"`
	MaxKeys  int        `json:"max_keys"`
	Evicted  int64      `json:"evicted_keys"`
	Bytes    int64      `json:"store_bytes"` // 0 if unknown

	APIKeys *keysHealth `json:"api_keys,omitempty"` // nil unless something is wrong with them
}

// keysHealth is what is wrong with a file of API keys. The keys read before are in force.
type keysHealth struct {
	File   string    `json:"file"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

func serveHealth(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: errors.New("method not allowed: expected GET")}
	}
	stores := []health{} // not nil, which would be null in JSON
	eachInstance(func(h *instance) { stores = append(stores, h.health()) })
	slices.SortFunc(stores, func(a, b health) int { return cmp.Compare(a.Path, b.Path) })
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(stores)
}

func (h *instance) health() health {
	stats := h.stats()
	told := health{
		Store:    h.settings.kind,
		Path:     h.settings.path,
		Degraded: stats.Degraded,
		Keys:     stats.Keys,
		MaxKeys:  cmp.Or(h.settings.maxKeys, engine.DefaultMaxKeys),
		Evicted:  stats.Evicted,
		Bytes:    stats.Store.Bytes,
	}
	if stats.Cause != nil {
		since := stats.Since.UTC().Truncate(time.Second)
		told.Since, told.Reason = &since, stats.Cause.Error()
	}
	told.APIKeys = keysHealthOf(h.keys.Load())
	return told
}

func keysHealthOf(file *apikeys.File) *keysHealth {
	if file == nil {
		return nil
	}
	file.Keys() // looks at the file, if no request has
	trouble := file.Trouble()
	if trouble == nil {
		return nil
	}
	return &keysHealth{File: file.Path(), Since: trouble.Since.UTC().Truncate(time.Second), Reason: trouble.Err.Error()}
}

// Interface guards
var _ caddy.AdminRouter = Admin{}
