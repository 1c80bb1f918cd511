package tally

import (
	"net/http"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// serves reports whether a path is served by the handler itself.
func (s *sessions) serves(path string) bool { return s != nil && strings.HasPrefix(path, s.Path) }

// serveSession answers a request for the session's path.
func (h *enforcer) serveSession(w http.ResponseWriter, r *http.Request) error {
	e := h.begin(r)
	defer e.release()
	return h.app.Session.serve(w, e)
}

// serve answers a request for the session's path: GET with a challenge, POST of a
// solution with a session. Whatever is asked for below the path counts as a visit.
func (s *sessions) serve(w http.ResponseWriter, e *evaluation) error {
	if isEarly(e.http) {
		return askAgain(w)
	}
	x := &exchange{sessions: s, app: e.client.app, w: w, http: e.http, evaluation: e, client: e.client, page: e.handler.page}
	x.client.locate(e)
	httpfield.NeverStore(w.Header())
	if d, ok := x.visit(); d.Reason == engine.Banned {
		return x.refuse(banned, d, "This client is banned.")
	} else if !ok || !d.Allowed {
		return x.refuse(tooOften, d, "Too many requests from your network.")
	}
	if e.http.URL.Path != s.Path {
		return x.say(http.StatusNotFound, "There is nothing here.")
	}
	if e.http.Method != http.MethodGet && e.http.Method != http.MethodHead && e.http.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, HEAD, POST")
		return x.say(http.StatusMethodNotAllowed, "Use GET or POST.")
	}
	if x.keys = s.ready(e.http.Context(), x.app); x.keys == nil {
		return x.refuse(noSecret, engine.Decision{}, "This can't be done at the moment.")
	}
	if e.http.Method == http.MethodPost {
		return x.accept()
	}
	query := e.http.URL.Query()
	x.asked = query.Get("target")
	if token := query.Get("wait"); token != "" && e.http.Method == http.MethodGet && s.withoutScript > 0 {
		if !x.isVisit() {
			return x.reject(foreign)
		}
		return x.acceptWait(token)
	}
	return x.show(http.StatusOK, x.asked, nil, nil)
}
