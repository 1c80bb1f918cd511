package dashboard

import (
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// explainPage answers what would happen if a client sent a request.
type explainPage struct {
	Asked   bool
	Client  string // as it was typed; "" if a row's client was asked about
	URL     string
	Method  string
	Methods []string
	Answer  operator.Explanation
	Who     Who
}

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}

func loadExplain(v *visit) (any, error) {
	p := explainPage{Method: "GET", Methods: methods}
	if v.r.PostForm == nil { // GET: the form only
		return p, nil
	}
	client, err := v.client()
	if err != nil {
		return nil, err
	}
	p.Asked, p.Client, p.URL = true, v.r.PostForm.Get("client"), strings.TrimSpace(v.r.PostForm.Get("url"))
	for _, method := range methods {
		if v.r.PostForm.Get("method") == method {
			p.Method = method
		}
	}
	q := operator.Question{Client: client, URL: p.URL}
	if p.URL != "" {
		q.Method = p.Method
	}
	if p.Answer, err = v.d.options.Service.Explain(v.r.Context(), q); err != nil {
		return nil, err
	}
	p.Who = v.Who(p.Answer.Text, p.Answer.Client)
	if p.Client != "" && !strings.HasPrefix(p.Client, string(operator.Reference)+":") {
		p.Who.Text, p.Who.In = p.Answer.Text, false // the reader knows it
	}
	return p, nil
}

// Passes reports whether the next request is let in.
func (p explainPage) Passes() bool {
	return p.Answer.Next.Outcome == "allowed" || p.Answer.Next.Outcome == "exempt"
}
