package httpfield

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// ProblemType is the media type of problem details (RFC 9457).
const ProblemType = "application/problem+json"

// Problem is a problem detail (RFC 9457).
type Problem struct {
	Type     string   `json:"type,omitempty"` // a URI; "" if the status says everything
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Instance string   `json:"instance,omitempty"`          // a URI of this occurrence
	Violated []string `json:"violated-policies,omitempty"` // names as in the field RateLimit-Policy
}

// quotaExceeded is the type that draft-ietf-httpapi-ratelimit-headers-11 defines.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// QuotaExceeded returns the problem of a request that violates a policy.
func QuotaExceeded(policy string) Problem {
	return Problem{
		Type:     quotaExceeded,
		Title:    "Request cannot be satisfied as assigned quota has been exceeded",
		Status:   http.StatusTooManyRequests,
		Violated: []string{policy},
	}
}

// Write answers a request with the problem.
func (p Problem) Write(w http.ResponseWriter, r *http.Request) error {
	body := p.JSON()
	w.Header().Set("Content-Type", ProblemType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(body)
	return err
}

// JSON returns the problem as it is sent.
func (p Problem) JSON() []byte {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // not reached: it has texts and a number
	}
	return body
}

// PrefersProblem reports whether a client requests problem details by name, and gives no other
// media type a higher weight. h is the header of its request.
func PrefersProblem(h http.Header) bool { return prefers(h, ProblemType) }

// PrefersJSON does the same for JSON of any kind. A script wants it unless it asks for text.
func PrefersJSON(h http.Header) bool {
	return prefers(h, "application/json") || PrefersProblem(h) || isFetch(h) && !prefers(h, "text/plain")
}

// prefersHTML does the same for HTML.
func prefersHTML(h http.Header) bool { return prefers(h, "text/html") }

func prefers(h http.Header, preferred string) bool {
	accept := h["Accept"]
	if !slices.ContainsFunc(accept, func(s string) bool { return strings.Contains(s, preferred) }) {
		return false
	}
	asked, others := 0.0, 0.0
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, params, _ := strings.Cut(item, ";")
		if quality := qualityOf(params); strings.TrimSpace(media) == preferred {
			asked = max(asked, quality)
		} else {
			others = max(others, quality)
		}
	}
	return asked > 0 && asked >= others
}

// qualityOf returns the weight among the parameters of a media type (RFC 9110,
// section 12.4.2), 1 if there is none.
func qualityOf(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if !strings.EqualFold(name, "q") {
			continue
		}
		q, err := strconv.ParseFloat(value, 64)
		if err != nil || !(q >= 0 && q <= 1) { // false for NaN
			return 0
		}
		return q
	}
	return 1
}
