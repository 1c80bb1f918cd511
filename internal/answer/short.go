package answer

import (
	"net/http"
	"strconv"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// Short is an answer to a rejected request, made once: a line of text, and problem details for
// clients of JSON. It is never empty, because some clients take an HTTP/2 answer without a body for
// an error if the server stops reading theirs (curl 7.88: error 92).
type Short struct {
	status, grpc  int // grpc is the status of HTTP that tells clients of gRPC theirs
	line          string
	text, problem content
}

type content struct {
	kind, length string
	body         []byte
}

// newShort returns the answer with a problem.
func newShort(p httpfield.Problem) *Short {
	line := http.StatusText(p.Status)
	if p.Detail != "" {
		line += ": " + p.Detail
	}
	return &Short{p.Status, p.Status, line, newContent("text/plain; charset=utf-8", []byte(line+"\n")),
		newContent(httpfield.ProblemType, p.JSON())}
}

// withGRPC returns the answer with another status for clients of gRPC.
func (a Short) withGRPC(status int) *Short {
	a.grpc = status
	return &a
}

// ofStatus returns the answer that says a status only.
func ofStatus(status int) *Short {
	return newShort(httpfield.Problem{Title: http.StatusText(status), Status: status})
}

func newContent(kind string, body []byte) content {
	return content{kind, strconv.Itoa(len(body)), body}
}

// Write sends the answer. Its header fields are held in values, because Caddy's header directive
// writes into them.
func (a *Short) Write(w http.ResponseWriter, r *http.Request, values *[3]string) error {
	c := &a.text
	if httpfield.PrefersJSON(r.Header) {
		c = &a.problem
	}
	h := w.Header()
	*values = [3]string{c.kind, c.length, "nosniff"}
	h["Content-Type"], h["Content-Length"], h["X-Content-Type-Options"] = values[0:1:1], values[1:2:2], values[2:3:3]
	delete(h, "Content-Encoding") // of an answer that this one replaces
	delete(h, "Content-Disposition")
	if below := beneathDeferred(w, nil); below != nil {
		below.own = http.Header{"Content-Type": {c.kind}, "Content-Length": {c.length},
			"X-Content-Type-Options": {"nosniff"}}
	}
	w.WriteHeader(a.status)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(c.body)
	return err
}
