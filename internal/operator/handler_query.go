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

// param is a parameter of a query. The handler reads it into its field, and a [Remote] writes it from there.
type param struct {
	name   string
	field  any      // *string, *int and *Seconds from 1 on, *bool or *time.Time; its zero value is left out
	values []string // the only ones, if there are any
}

// none is the type of an empty query.
type none struct{}

func (*none) params() []param { return nil }

func (k *KeysQuery) params() []param {
	return []param{
		{name: "zone", field: &k.Zone}, {"by", (*string)(&k.By), []string{string(ByUsed), string(ByRefused)}},
		{name: "n", field: &k.N},
	}
}

func (a *AuditQuery) params() []param {
	return []param{{name: "charges", field: &a.Charges}, {name: "before", field: &a.Before}, {name: "n", field: &a.N}}
}

func (r *RefusalsQuery) params() []param {
	return []param{
		{name: "zone", field: &r.Zone}, {name: "path", field: &r.Path}, {name: "agent", field: &r.Agent},
		{name: "network", field: &r.Network}, {name: "country", field: &r.Country},
		{name: "provider", field: &r.Provider},
	}
}

func (h *HistoryQuery) params() []param {
	return []param{
		{name: "zone", field: &h.Zone}, {name: "limit", field: &h.Limit},
		{name: "from", field: &h.From}, {name: "to", field: &h.To},
		{"resolution_seconds", &h.Resolution, []string{"60", "3600", "86400"}},
	}
}

// get returns an endpoint that calls do with what a query asks for.
func get[In any, Query interface {
	*In
	params() []param
}](do func(context.Context, In) (any, error)) endpoint {
	return endpoint{method: http.MethodGet, answer: func(r *http.Request) (any, error) {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return nil, Errorf(http.StatusBadRequest, "query: %v", err)
		}
		var in In
		if err := readQuery(values, Query(&in).params()); err != nil {
			return nil, err
		}
		return do(r.Context(), in)
	}}
}

// readQuery reads a query. An unknown parameter is an error.
func readQuery(values url.Values, params []param) error {
	known := make([]string, len(params))
	for i, p := range params {
		known[i] = p.name
		got, expected := strconv.Quote(values.Get(p.name)), p.set(values.Get(p.name))
		if len(values[p.name]) > 1 {
			got, expected = "two of them", "one"
		}
		if expected != "" {
			return Errorf(http.StatusBadRequest, "query: %s: got %.100s: expected %s", p.name, got, expected)
		}
	}
	for name := range values {
		if len(known) == 0 {
			return Errorf(http.StatusBadRequest, "query: got %.100q: expected none", name)
		}
		if !slices.Contains(known, name) {
			return Errorf(http.StatusBadRequest, "query: got %.100q: expected %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// set sets the field, unless the text is "". It returns what was expected instead of the text, or "".
func (p param) set(text string) (expected string) {
	if text == "" {
		return ""
	}
	if last := len(p.values) - 1; last > 0 && !slices.Contains(p.values, text) {
		return strings.Join(p.values[:last], ", ") + " or " + p.values[last]
	}
	n, err := strconv.Atoi(text)
	switch field := p.field.(type) {
	case *string:
		*field = text
	case *bool:
		if *field = text == "true"; !*field {
			return "true"
		}
	case *time.Time:
		if *field, err = time.Parse(time.RFC3339, text); err != nil {
			return "a time such as 2026-11-22T08:00:00Z"
		}
	case *int:
		*field = n
		if err != nil || n < 1 {
			return "a number from 1"
		}
	case *Seconds:
		*field = Seconds(n)
	}
	return ""
}

// queryOf makes the query of parameters.
func queryOf(params []param) url.Values {
	values := make(url.Values)
	for _, p := range params {
		text := ""
		switch field := p.field.(type) {
		case *string:
			text = *field
		case *bool:
			text = strings.TrimPrefix(strconv.FormatBool(*field), "false")
		case *time.Time:
			if !field.IsZero() {
				text = field.UTC().Format(time.RFC3339Nano)
			}
		case *int:
			text = positive(*field)
		case *Seconds:
			text = positive(int(*field))
		}
		if text != "" {
			values.Set(p.name, text)
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
