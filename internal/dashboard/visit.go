package dashboard

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// visit is one request. Templates use what is exported.
type visit struct {
	d        *Dashboard
	w        http.ResponseWriter
	r        *http.Request
	User     string
	Nonce    string // for scripts and styles
	Revealed bool   // addresses are shown
	guarded  bool   // the form is one of this dashboard
	typed    bool   // the form's client is one that somebody has typed
	Now      time.Time
}

func (d *Dashboard) visit(w http.ResponseWriter, r *http.Request) *visit {
	return &visit{d: d, w: w, r: r, User: d.options.User(r), Nonce: rand.Text(), Now: d.options.Now()}
}

// layout is the data of a template.
type layout struct {
	*visit
	Page  string // its name; "" for the first page and for errors
	Title string
	First bool // it is the first page
	List  string
	Body  any
}

// Self returns the URL of the page with its query, which names no client.
func (l layout) Self() string {
	self := cmp.Or(l.Page, "./")
	if query := l.r.URL.Query().Encode(); query != "" {
		self += "?" + query
	}
	return self
}

// render writes a page. It completes the page before it sends anything.
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

// Writable reports whether actions are allowed.
func (v *visit) Writable() bool { return v.d.options.Writable }

// Token returns the token for forms.
func (v *visit) Token() string { return seals.token(v.User) }

// Typed returns the value that the user typed into a field of the form that was sent, or "".
func (v *visit) Typed(field string) string { return v.r.PostForm.Get(field) }

// TypedFor returns how long an action shall hold, as the user chose it: in a new form, a day.
func (v *visit) TypedFor() string {
	if v.r.PostForm.Has("for") {
		return v.r.PostForm.Get("for")
	}
	return "86400"
}

// Say returns a text as people may read it: its addresses are masked, unless they are revealed.
func (v *visit) Say(text string) string {
	if v.Revealed {
		return wording.Printable(text, "")
	}
	return masked(text)
}

// named returns a text key or the name of an API key with its kind, as in commands: it may read as another one's.
func named(text, client string) string {
	for _, kind := range []operator.TargetKind{operator.KeyText, operator.APIKey} {
		if begins := string(kind) + ":"; strings.HasPrefix(client, begins) && !strings.HasPrefix(text, begins) {
			return begins + text
		}
	}
	return text
}

// Who is the displayed form of a client.
type Who struct {
	Text   string
	In     bool   // Text is a network that contains the client
	Tag    string // distinguishes clients with masked addresses; or ""
	Handle string // names the client in forms; "" if that is impossible
}

// Who returns the displayed form of a client with a tag.
func (v *visit) Who(text, client, tag string) Who {
	who := Who{Text: named(text, client), Tag: tag, Handle: seals.seal(v.User, client)}
	if shown, narrowed, ok := wording.MaskAddress(who.Text); ok && !v.Revealed {
		who.Text, who.In = shown, narrowed
	} else {
		who.Text = v.Say(who.Text)
	}
	return who
}

// asTyped returns the displayed form of a form's client. A client that the user typed is shown as
// typed, and without its tag: otherwise a user could type all addresses of a network, and so learn
// the address of a tag. References and tags don't contain an address, so it stays masked.
func (v *visit) asTyped(text, client, tag string) Who {
	known := v.isAboutKnown()
	if !known && !v.typed {
		return v.Who(text, client, tag)
	}
	who := v.Who(text, typedMark+client, "")
	if known {
		who.Text, who.In = text, false
	}
	return who
}

// typedMark begins the sealed name of a client that somebody has typed: pages show its address masked, and no tag.
const typedMark = "typed "

// RuleOf returns the displayed form of a rule's client, which somebody has typed unless the rule is a ban for
// violations.
func (v *visit) RuleOf(r operator.Rule) Who {
	if r.By == "conduct" || r.Client == "" {
		return v.Who(r.Text, r.Client, r.Tag)
	}
	return v.Who(r.Text, typedMark+r.Client, "")
}

// open returns the client of a handle.
func (v *visit) open(handle string) (client string, err error) {
	client, err = seals.open(v.User, handle)
	client, v.typed = strings.CutPrefix(client, typedMark)
	return client, err
}

// client returns the client of a form: by its handle, or as the user typed it.
func (v *visit) client() (string, error) {
	if handle := v.r.PostForm.Get("handle"); handle != "" {
		return v.open(handle)
	}
	client := v.r.PostForm.Get("client")
	if _, err := operator.ParseTarget(client); err != nil {
		return "", err
	}
	return client, nil
}
