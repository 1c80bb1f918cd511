package operator

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Root is the path below which a handler of [NewHandler] answers.
const Root = "/rate_limit/"

// NewHandler returns the handler of a service on Caddy's admin endpoint. It answers in JSON, errors
// too: see [Error]. A stream of events ends with the context of its request.
//
// Reads use GET with a query, which names no clients. Requests about a client, and changes, use
// POST with a JSON object of at most [MaxBody] bytes.
func NewHandler(s Service) http.Handler { return handler{s, endpointsOf(s)} }

type handler struct {
	service   Service
	endpoints map[string]endpoint
}

// endpoint handles one path.
type endpoint struct {
	method string
	answer func(*http.Request) (any, error)
	stream bool // answered with events instead
}

func endpointsOf(s Service) map[string]endpoint {
	endpoints := map[string]endpoint{
		"status": get(func(ctx context.Context, _ none) (any, error) { return s.Status(ctx) }),
		"zones":  get(func(ctx context.Context, _ none) (any, error) { return listed(s.Zones(ctx)) }),
		"top":    get(func(ctx context.Context, q KeysQuery) (any, error) { return listed(s.Keys(ctx, q)) }),
		"blocked": get(func(ctx context.Context, q KeysQuery) (any, error) {
			q.Blocked = true
			return listed(s.Keys(ctx, q))
		}),
		"bans":     get(func(ctx context.Context, _ none) (any, error) { return listed(s.Bans(ctx)) }),
		"refusals": get(func(ctx context.Context, q RefusalsQuery) (any, error) { return s.Refusals(ctx, q) }),
		"history":  get(func(ctx context.Context, q HistoryQuery) (any, error) { return s.History(ctx, q) }),
		"audit":    get(func(ctx context.Context, q AuditQuery) (any, error) { return listed(s.Audit(ctx, q)) }),
		"events":   {method: http.MethodGet, stream: true},

		"audit/client": post(`{"client": "203.0.113.9", "n": 50, "before": "2026-11-22T08:00:00Z"}`,
			func(ctx context.Context, q AuditQuery) (any, error) {
				if q.Client == "" {
					return nil, Errorf(http.StatusBadRequest, "client: expected one; GET audit lists all acts")
				}
				return listed(s.Audit(ctx, q))
			}),
		"refusals/search": post(`{"client": "203.0.113.9", "path": "/login", "text": "bot"}`, s.Refusals),
		"usage":           post(`{"client": "api-key:acme", "month": "2026-11"}`, s.Usage),
		"explain": post(`{"client": "203.0.113.9", "method": "POST", "url": "https://example.com/login", "headers": {"User-Agent": ["curl"]}}`, func(ctx context.Context, q Question) (any, error) {
			q.By = Admin
			return s.Explain(ctx, q)
		}),
		chargePath:    charge(s),
		"notify/test": post("{}", func(ctx context.Context, _ none) ([]Notified, error) { return s.TestNotify(ctx) }),
		"import": post(`{"statements": ["ban 203.0.113.0/24 until 2026-12-01 # scraper"]}`,
			func(ctx context.Context, i Import) (any, error) {
				i.By = Admin
				return s.Import(ctx, i)
			}),
		"reveal": post(`{"list": "bans"}`,
			func(ctx context.Context, r revelation) (any, error) { return r, s.Reveal(ctx, Admin, r.List) }),

		"api-keys": get(func(ctx context.Context, _ none) (any, error) { return listed(s.APIKeys(ctx)) }),
		"api-keys/add": post(`{"line": "acme free <hash>"}`,
			func(ctx context.Context, k newAPIKey) (any, error) { return changedKeys{1}, s.AddAPIKey(ctx, k.Line) }),
		"api-keys/change": post(`{"name": "acme", "id": "9a41c07e", "tier": "pro"}`,
			func(ctx context.Context, c APIKeyChange) (any, error) {
				if c.Name == "" {
					return nil, Errorf(http.StatusBadRequest, "name: expected one, such as acme")
				}
				n, err := s.ChangeAPIKeys(ctx, c)
				return changedKeys{n}, err
			}),
	}
	for action, example := range examples {
		endpoints[string(action)] = post(example, func(ctx context.Context, o Command) (Done, error) {
			o.By = Admin
			return s.Do(ctx, action, o)
		})
	}
	return endpoints
}

// examples are the bodies of actions, for messages.
var examples = map[Action]string{
	Reset:    `{"client": "203.0.113.9", "zone": "login", "reason": "…"}`,
	Ban:      `{"client": "203.0.113.9", "for_seconds": 3600, "reason": "…"}`,
	Unban:    `{"client": "203.0.113.9", "reason": "…"}`,
	Allow:    `{"client": "203.0.113.9", "for_seconds": 3600, "reason": "…"}`,
	Disallow: `{"client": "203.0.113.9", "reason": "…"}`,
	Raise:    `{"client": "api-key:acme", "factor": "5x", "zone": "login", "for_seconds": 3600, "reason": "…"}`,
	Unraise:  `{"client": "api-key:acme", "zone": "login", "reason": "…"}`,
}

// listed returns an empty list for nil, so that JSON has no null.
func listed[T any](list []T, err error) (any, error) {
	if list == nil {
		list = []T{}
	}
	return list, err
}

// Admin is the audit's name of users of the admin endpoint.
const Admin = "admin"

// revelation names a revealed list.
type revelation struct {
	List string `json:"list"`
}

// ServeHTTP implements http.Handler.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Root)
	if strings.HasPrefix(name, chargePath) {
		name = chargePath // the zone follows
	}
	e, ok := h.endpoints[name]
	switch {
	case !ok || !strings.HasPrefix(r.URL.Path, Root):
		writeError(w, Errorf(http.StatusNotFound, "got %.100q: expected %s and one of %s", r.URL.Path, Root, h.names()))
	case r.Method != e.method:
		w.Header().Set("Allow", e.method)
		writeError(w, Errorf(http.StatusMethodNotAllowed, "got %.20q: expected %s", r.Method, e.method))
	case e.stream:
		h.serveEvents(w, r)
	default:
		answer, err := e.answer(r)
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	}
}

// names returns the names of the endpoints, for messages.
func (h handler) names() string {
	return strings.Join(slices.Sorted(maps.Keys(h.endpoints)), ", ")
}

func writeError(w http.ResponseWriter, err error) {
	failure, ok := errors.AsType[*Error](err)
	if !ok {
		failure = Errorf(http.StatusInternalServerError, "%v", err)
	}
	writeJSON(w, failure.Status, failure)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil { // a number that JSON can't represent
		status, body = http.StatusInternalServerError,
			[]byte(`{"status":500,"error":"the answer can't be written as JSON"}`)
	}
	setFields(w.Header(), "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) //nolint:errcheck // the client is gone
}

// setFields sets the common header fields of answers.
func setFields(header http.Header, contentType string) {
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
}
