package tally

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

const problemType = "application/problem+json"

// problem is a problem detail as in RFC 9457.
type problem struct {
	Type     string   `json:"type,omitempty"` // "" says that the status tells all
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

// quotaExceeded is the type that draft-ietf-httpapi-ratelimit-headers-11 defines.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// problem returns what a client is told of a refusal.
func (p *response) problem() problem {
	return problem{
		Type:     quotaExceeded,
		Title:    "Request cannot be satisfied as assigned quota has been exceeded",
		Status:   http.StatusTooManyRequests,
		Violated: []string{p.refusal.policy.name},
	}
}

// problemOf returns what a client is told of a denial.
func problemOf(denied caddyhttp.HandlerError) problem {
	return problem{Title: http.StatusText(denied.StatusCode), Status: denied.StatusCode, Detail: denied.Err.Error()}
}

// write answers with the problem detail.
func (p problem) write(w http.ResponseWriter, r *http.Request) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", problemType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, err = w.Write(body)
	}
	return err
}

// prefersProblem tells whether a client asks for problem details by name, and
// for nothing else more.
func prefersProblem(h http.Header) bool {
	accept := h["Accept"]
	if !slices.ContainsFunc(accept, func(s string) bool { return strings.Contains(s, problemType) }) {
		return false
	}
	asked, others := 0.0, 0.0
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, params, _ := strings.Cut(item, ";")
		if quality := qualityOf(params); strings.TrimSpace(media) == problemType {
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
		if err != nil || !(q >= 0 && q <= 1) { // which NaN is not
			return 0
		}
		return q
	}
	return 1
}
