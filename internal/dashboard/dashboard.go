package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// maxStreams bounds the number of concurrent event streams, one per browser.
const maxStreams = 16

// Options configure a dashboard.
type Options struct {
	// Service provides the dashboard's data and actions. Required.
	Service operator.Service
	// Writable allows actions: bans, allowances and resets. Otherwise the dashboard is read-only. It
	// still reveals addresses, which it records in the audit.
	Writable bool
	// User returns a request's user, for the audit and for tokens. Nil means "admin" for every
	// request.
	User func(*http.Request) string
	// Address returns the address of a request's user, whose ban may be a mistake. Nil means that it is unknown.
	Address func(*http.Request) netip.Addr
	// Looks bounds how often a user looks at addresses, over all dashboards with it. Nil means one of its own.
	Looks *Looks
	// Report receives errors that aren't the user's. Required.
	Report func(error)
	// Now returns the time. Nil means time.Now.
	Now func() time.Time
}

// Dashboard is an http.Handler. It may be used by several goroutines at once. It starts none.
type Dashboard struct {
	options Options
	streams chan struct{} // holds a value per stream
}

// New returns a dashboard.
func New(o Options) *Dashboard {
	if o.User == nil {
		o.User = func(*http.Request) string { return "admin" }
	}
	if o.Looks == nil {
		o.Looks = new(Looks)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Dashboard{options: o, streams: make(chan struct{}, maxStreams)}
}

// ServeHTTP implements http.Handler. It does no authentication: the surrounding handler must.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := d.visit(w, r)
	setHeaders(w.Header(), r, v.Nonce)
	name := v.name()
	if file, ok := assets()[name]; ok {
		v.serveAsset(file)
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		v.get(name)
	case http.MethodPost:
		if err := v.guard(); err != nil {
			v.fail(err)
			return
		}
		v.guarded = true
		v.post(name)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		v.fail(operator.Errorf(http.StatusMethodNotAllowed,
			"The dashboard has no %.20q: expected GET or POST.", r.Method))
	}
}

// name returns the last segment of the request's path.
func (v *visit) name() string { return v.r.URL.Path[strings.LastIndexByte(v.r.URL.Path, '/')+1:] }

// get answers with a page, or with the event stream.
func (v *visit) get(name string) {
	if name == "events" {
		v.serveEvents()
		return
	}
	if _, isAction := actions[operator.Action(name)]; isAction || name == "search" {
		v.w.Header().Set("Allow", "POST")
		v.fail(operator.Errorf(http.StatusMethodNotAllowed,
			"Such a request is sent with the form of a page: go to Clients or Bans."))
		return
	}
	v.show(name)
}

// post executes an action, answers a question, or shows a page with its addresses.
func (v *visit) post(name string) {
	if _, isAction := actions[operator.Action(name)]; isAction {
		v.act(operator.Action(name))
		return
	}
	if name == "search" {
		v.search()
		return
	}
	if v.r.PostForm.Has("reveal") {
		if err := v.reveal(name); err != nil {
			v.fail(err)
			return
		}
	}
	v.show(name)
}

// reveal makes the page show addresses, once the audit entry is written.
func (v *visit) reveal(name string) error {
	p, ok := pages[name]
	if !ok || p.list == "" {
		return operator.Errorf(http.StatusBadRequest, "This page has no addresses to show.")
	}
	if err := v.d.options.Looks.take(v.User, v.Now); err != nil {
		return err
	}
	if err := v.d.options.Service.Reveal(v.r.Context(), v.User, p.list); err != nil {
		return err
	}
	v.Revealed = true
	return nil
}

// show renders a page.
func (v *visit) show(name string) {
	p, ok := pages[name]
	if !ok {
		v.fail(operator.Errorf(http.StatusNotFound, "There is no page %.40q.", name))
		return
	}
	body, err := p.load(v)
	if err != nil {
		v.fail(err)
		return
	}
	v.render(http.StatusOK, name, p.title, p.template, body)
}

// failure is an error, with the form that caused it as the user filled it in, to be mended.
type failure struct {
	*operator.Error
	Form *form
}

// form is a form that a user fills in. The zero value is the one that explains.
type form struct {
	Action  operator.Action
	Text    string // of its button
	Class   string // likewise
	Handle  string // of its client; "" if the user types one
	Forever bool   // it may have no end
}

// forms are the forms by the last segments of their paths.
var forms = map[string]form{
	"explain":              {},
	"search":               {},
	string(operator.Ban):   {Action: operator.Ban, Text: "Ban", Class: "danger", Forever: true},
	string(operator.Allow): {Action: operator.Allow, Text: "Let in"},
	string(operator.Raise): {Action: operator.Raise, Text: "Raise", Forever: true},
}

// formToMend returns the form that was sent, or nil if another page has sent it or nothing was typed into it.
func (v *visit) formToMend() *form {
	f, ok := forms[v.name()]
	if !ok || !v.guarded || !v.Writable() && f.Action != "" {
		return nil
	}
	f.Handle = v.Typed("handle")
	return &f
}

// fail renders an error. If it isn't the user's, fail reports it, and renders no details.
func (v *visit) fail(err error) {
	var known *operator.Error
	if !errors.As(err, &known) {
		v.d.options.Report(fmt.Errorf("dashboard: %w", err))
		known = operator.Errorf(http.StatusInternalServerError,
			"The rate limiter gave no answer. Caddy's log says why.")
	}
	if !v.isAboutKnown() {
		known = operator.Errorf(known.Status, "%s", wording.MaskText(known.Message))
	}
	v.render(known.Status, "", "That didn’t work", "error", failure{known, v.formToMend()})
}
