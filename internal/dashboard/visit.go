package dashboard

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// visit is one request. Templates call its exported methods.
type visit struct {
	d        *Dashboard
	w        http.ResponseWriter
	r        *http.Request
	user     string
	nonce    string
	revealed bool // addresses are shown
	now      time.Time
}

func (d *Dashboard) visit(w http.ResponseWriter, r *http.Request) *visit {
	return &visit{d: d, w: w, r: r, user: d.options.User(r), nonce: rand.Text(), now: d.options.Now()}
}

// layout is what a template is rendered with.
type layout struct {
	*visit
	Page  string // its name, "" for the first and for errors
	Title string
	First bool // it is the first page
	List  string
	Body  any
}

// Self returns the address of the page with its query, which names no client.
func (l layout) Self() string {
	self := l.Page
	if self == "" {
		self = "./"
	}
	if query := l.r.URL.Query().Encode(); query != "" {
		self += "?" + query
	}
	return self
}

// render writes a page. It is rendered whole before anything is sent.
func (v *visit) render(status int, name, title, template string, body any) {
	var out bytes.Buffer
	l := layout{visit: v, Page: name, Title: title, First: template == "now", Body: body}
	if p, ok := pages[name]; ok && template == p.template {
		l.List = p.list
	}
	if err := templates()[template].ExecuteTemplate(&out, "layout", l); err != nil {
		v.d.options.Report(err)
		http.Error(v.w, "The page can't be rendered.", http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	v.w.WriteHeader(status)
	if v.r.Method != http.MethodHead {
		_, _ = out.WriteTo(v.w) // an error: the browser is gone
	}
}

// User returns who looks.
func (v *visit) User() string { return v.user }

// Writable reports whether orders are taken.
func (v *visit) Writable() bool { return v.d.options.Writable }

// Token returns what a form must have.
func (v *visit) Token() string { return v.d.seals.token(v.user) }

// Nonce returns what scripts and styles must have.
func (v *visit) Nonce() string { return v.nonce }

// Revealed reports whether addresses are shown.
func (v *visit) Revealed() bool { return v.revealed }

// Now returns the time of the page.
func (v *visit) Now() time.Time { return v.now }

// Say returns a text with its addresses masked, unless they are revealed.
func (v *visit) Say(text string) string {
	if v.revealed {
		return text
	}
	return mask(text)
}

// Who is a client as a page shows it.
type Who struct {
	Text   string
	In     bool   // Text is a network that the client is in
	Print  string // what tells browsers of one network apart, shortened; "" if nothing does
	Tag    string // tells clients apart whose addresses are masked; "" if there is none
	Handle string // names the client in forms; "" if it can't be named
}

// Who returns how a client with a tag is shown.
func (v *visit) Who(text, client, tag string) Who {
	who := Who{Text: text, Tag: tag, Handle: v.d.seals.seal(v.user, client)}
	if address, print, ok := cutPrint(text); ok {
		who.Text, who.Print = address, print
	}
	if v.revealed {
		return who
	}
	if shown, narrowed, ok := maskOne(who.Text); ok {
		who.Text, who.In = shown, narrowed
	} else {
		who.Text = mask(who.Text)
	}
	return who
}

// asTyped returns how a client is shown that a form was about. One that the reader typed is shown
// as typed, and without its tag: otherwise somebody could type all addresses of a network, and so
// learn whose a tag is. A reference and a tag don't say an address, so that it stays masked.
func (v *visit) asTyped(text, client, tag string) Who {
	who := v.Who(text, client, tag)
	if v.isAboutKnown() {
		who.Text, who.In, who.Tag = text, false, ""
	}
	return who
}

// cutPrint cuts a fingerprint in hex off an address, and shortens it.
func cutPrint(text string) (address, print string, ok bool) {
	address, print, _ = strings.Cut(text, " ")
	if _, _, ok := maskOne(address); !ok || len(print) != 32 || strings.Trim(print, "0123456789abcdef") != "" {
		return "", "", false
	}
	return address, print[:8], true
}

// client returns whom a form is about: by its handle, or as the reader typed it.
func (v *visit) client() (string, error) {
	if handle := v.r.PostForm.Get("handle"); handle != "" {
		return v.d.seals.open(v.user, handle)
	}
	client := v.r.PostForm.Get("client")
	if _, err := operator.ParseTarget(client); err != nil {
		return "", err
	}
	return client, nil
}
