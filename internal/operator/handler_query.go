package operator

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// none is the type of an empty query.
type none struct{}

// get returns an endpoint that calls do with the result of read.
func get[In any](read func(*query) In, do func(context.Context, In) (any, error)) endpoint {
	return endpoint{method: http.MethodGet, answer: func(r *http.Request) (any, error) {
		q := &query{err: nil}
		var err error
		if q.values, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			return nil, Errorf(http.StatusBadRequest, "query: %v", err)
		}
		in := read(q)
		if err := q.finish(); err != nil {
			return nil, err
		}
		return do(r.Context(), in)
	}}
}

// query reads the parameters of a query. The first error is kept.
type query struct {
	values url.Values
	known  []string // names read so far
	err    error
}

// text returns a parameter, or "".
func (q *query) text(name string) string {
	q.known = append(q.known, name)
	if len(q.values[name]) > 1 {
		q.fail(name, "two of them", "one")
	}
	return q.values.Get(name)
}

// number returns a parameter that is a number of at least 1, or 0 if it is missing.
func (q *query) number(name string) int {
	text := q.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		q.fail(name, strconv.Quote(text), "a number from 1")
		return 0
	}
	return n
}

// time returns a parameter that is a time, or the zero time if it is missing.
func (q *query) time(name string) time.Time {
	text := q.text(name)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		q.fail(name, strconv.Quote(text), "a time such as 2026-11-22T08:00:00Z")
	}
	return at
}

// yes returns a parameter that is true, or missing.
func (q *query) yes(name string) bool {
	text := q.text(name)
	if text != "" && text != "true" {
		q.fail(name, strconv.Quote(text), "true")
	}
	return text != ""
}

func (q *query) fail(name, got, want string) {
	if q.err == nil {
		q.err = Errorf(http.StatusBadRequest, "query: %s: got %.100s: expected %s", name, got, want)
	}
}

// finish returns the first error. An unknown parameter is one.
func (q *query) finish() error {
	for name := range q.values {
		if q.err == nil && !slices.Contains(q.known, name) {
			expected := "none"
			if len(q.known) > 0 {
				expected = strings.Join(q.known, ", ")
			}
			q.err = Errorf(http.StatusBadRequest, "query: got %.100q: expected %s", name, expected)
		}
	}
	return q.err
}

func noQuery(*query) none { return none{} }

func readKeysQuery(q *query) KeysQuery {
	keys := KeysQuery{Zone: q.text("zone"), By: By(q.text("by")), N: q.number("n")}
	if keys.By != "" && keys.By != ByUsed && keys.By != ByRefused {
		q.fail("by", strconv.Quote(string(keys.By)), string(ByUsed)+" or "+string(ByRefused))
	}
	return keys
}

func readBlockedQuery(q *query) KeysQuery {
	keys := readKeysQuery(q)
	keys.Blocked = true
	return keys
}

func readAuditQuery(q *query) AuditQuery {
	return AuditQuery{Charges: q.yes("charges"), Before: q.time("before"), N: q.number("n")}
}

func readRefusalsQuery(q *query) RefusalsQuery {
	return RefusalsQuery{Zone: q.text("zone"), Path: q.text("path"), Agent: q.text("agent"), Network: q.text("network"),
		Country: q.text("country"), Provider: q.text("provider")}
}

func readHistoryQuery(q *query) HistoryQuery {
	history := HistoryQuery{Zone: q.text("zone"), Limit: q.text("limit"), From: q.time("from"), To: q.time("to"),
		Resolution: Seconds(q.number("resolution_seconds"))}
	if r := history.Resolution; r != 0 && !slices.Contains([]Seconds{60, 3600, 86400}, r) {
		q.fail("resolution_seconds", strconv.Quote(q.text("resolution_seconds")), "60, 3600 or 86400")
	}
	return history
}

// values returns the query for readKeysQuery.
func (k KeysQuery) values() url.Values {
	return queryOf("zone", k.Zone, "by", string(k.By), "n", positive(k.N))
}

// values returns the query for readAuditQuery.
func (a AuditQuery) values() url.Values {
	charges := ""
	if a.Charges {
		charges = "true"
	}
	return queryOf("charges", charges, "before", instant(a.Before), "n", positive(a.N))
}

// values returns the query for readRefusalsQuery.
func (r RefusalsQuery) values() url.Values {
	return queryOf("zone", r.Zone, "path", r.Path, "agent", r.Agent, "network", r.Network, "country", r.Country,
		"provider", r.Provider)
}

// values returns the query for readHistoryQuery.
func (h HistoryQuery) values() url.Values {
	return queryOf("zone", h.Zone, "limit", h.Limit, "from", instant(h.From), "to", instant(h.To), "resolution_seconds",
		positive(int(h.Resolution)))
}

// queryOf makes a query from alternating names and values. It omits empty values.
func queryOf(pairs ...string) url.Values {
	values := make(url.Values)
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			values.Set(pair[0], pair[1])
		}
	}
	return values
}

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func instant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}
