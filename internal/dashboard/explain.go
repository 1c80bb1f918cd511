package dashboard

import (
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// explainPage forecasts the outcome of a client's request.
type explainPage struct {
	Asked  bool
	URL    string
	Method string
	Answer operator.Explanation
	Who    Who
}

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}

func loadExplain(v *visit) (any, error) {
	p := explainPage{Method: "GET"}
	if v.r.PostForm == nil { // GET: the form only
		return p, nil
	}
	client, err := v.client()
	if err != nil {
		return nil, err
	}
	p.Asked, p.URL = true, strings.TrimSpace(v.r.PostForm.Get("url"))
	if method := v.r.PostForm.Get("method"); slices.Contains(methods, method) {
		p.Method = method
	}
	knows := isKnown(v.r.PostForm.Get("client"))
	if knows {
		if err := v.d.options.Looks.take(v.User, v.Now); err != nil {
			return nil, err
		}
	}
	q := operator.Question{Client: client, URL: p.URL, Note: knows, By: v.User}
	if p.URL != "" {
		q.Method = p.Method
	}
	if p.Answer, err = v.d.options.Service.Explain(v.r.Context(), q); err != nil {
		return nil, err
	}
	p.Who = v.asTyped(p.Answer.Text, p.Answer.Client, p.Answer.Tag)
	return p, nil
}

// isKnown reports whether a client that a user has typed is named by something that pages mask: an
// address, a network, or a key that may hold one. Questions about such clients are recorded in the
// audit and bounded: otherwise a user could find masked addresses by a binary search of their
// networks. References and tags name clients whose addresses the user doesn't know.
func isKnown(typed string) bool {
	t, err := operator.ParseTarget(typed)
	return err == nil && (t.Kind == operator.Address || t.Kind == operator.KeyText)
}

// isAboutKnown reports whether a form names no client, or a client by something that pages mask.
func (v *visit) isAboutKnown() bool {
	if v.r.PostForm.Get("handle") != "" || v.r.URL.Query().Has("client") {
		return false
	}
	typed := v.r.PostForm.Get("client")
	_, err := operator.ParseTarget(typed)
	return err != nil || isKnown(typed)
}

// Requests returns the URL of the client's requests, or "".
func (p explainPage) Requests() string {
	if p.Who.Handle == "" {
		return ""
	}
	return urlOf("requests", nil, "client", p.Who.Handle)
}

// Passes reports whether the next request passes.
func (p explainPage) Passes() bool {
	return p.Answer.Next.Outcome == "allowed" || p.Answer.Next.Outcome == "exempt"
}
