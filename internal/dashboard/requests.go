package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// requestsPage shows what requests of the last minutes have in common, and leads from each of that to the rest.
type requestsPage struct {
	Zones      []string
	Zone       string
	Filters    []filter
	Properties []property
	Refused    operator.Refusals
	Keys       []operator.Key // in memory, with the text that was searched for
}

// filter restricts the page to requests that have something.
type filter struct {
	Name, Value string // in the query
	Title       string
	Text        string
	Who         Who    // in place of Text, for a client
	URL         string // of the page without it
	Target      string // all clients of the network, country or provider; "" for others
}

// property is something that requests may share.
type property struct {
	Name, Title string
	Shares      []shareRow
}

// shareRow is a number of requests that share something.
type shareRow struct {
	operator.RefusedShare
	Who Who
	URL string // of the page about them; "" if no page is
}

// properties are the properties by their names in a query, which names no client: theirs is sealed.
var properties = []struct {
	name, title string
	shares      func(*operator.Refusals) []operator.RefusedShare
	to          func(*operator.RefusalsQuery) *string
}{
	{"client", "Clients", func(r *operator.Refusals) []operator.RefusedShare { return r.Clients },
		func(q *operator.RefusalsQuery) *string { return &q.Client }},
	{"path", "Paths", func(r *operator.Refusals) []operator.RefusedShare { return r.Paths },
		func(q *operator.RefusalsQuery) *string { return &q.Path }},
	{"agent", "Browsers and programs", func(r *operator.Refusals) []operator.RefusedShare { return r.Agents },
		func(q *operator.RefusalsQuery) *string { return &q.Agent }},
	{"network", "Networks", func(r *operator.Refusals) []operator.RefusedShare { return r.Networks },
		func(q *operator.RefusalsQuery) *string { return &q.Network }},
	{"country", "Countries", func(r *operator.Refusals) []operator.RefusedShare { return r.Countries },
		func(q *operator.RefusalsQuery) *string { return &q.Country }},
	{"provider", "Providers", func(r *operator.Refusals) []operator.RefusedShare { return r.Providers },
		func(q *operator.RefusalsQuery) *string { return &q.Provider }},
	{"text", "Text", func(*operator.Refusals) []operator.RefusedShare { return nil },
		func(q *operator.RefusalsQuery) *string { return &q.Text }},
}

// groups are the properties by which clients can be banned together, with what their names begin with as targets.
var groups = map[string]string{"network": "", "country": string(operator.Country) + ":",
	"provider": string(operator.ASN) + ":"}

// isSealed reports whether the value of a property is sealed in URLs.
func isSealed(name string) bool { return name == "client" || name == "text" }

func loadRequests(v *visit) (any, error) {
	query := v.r.URL.Query()
	zones, err := v.d.options.Service.Zones(v.r.Context())
	if err != nil {
		return nil, err
	}
	p := requestsPage{Zones: zoneNames(zones), Zone: query.Get("zone")}
	q := operator.RefusalsQuery{Zone: p.Zone}
	for _, kind := range properties {
		value := query.Get(kind.name)
		if value == "" {
			continue
		}
		f := filter{Name: kind.name, Value: value, Title: kind.title, Text: value,
			URL: urlOf("requests", query, kind.name, "")}
		if isSealed(kind.name) {
			if value, err = v.open(value); err != nil {
				return nil, err
			}
			f.Text = v.Say(value) // a handle may be any of the user’s
		}
		if kind.name == "client" {
			f.Who = v.Who(value, value, "")
		}
		if begins, ok := groups[kind.name]; ok {
			f.Target = begins + strings.TrimPrefix(value, "AS")
		}
		*kind.to(&q) = value
		p.Filters = append(p.Filters, f)
	}
	if p.Refused, err = v.d.options.Service.Refusals(v.r.Context(), q); err != nil {
		return nil, err
	}
	if q.Client != "" { // whoever has typed an address would learn its tag
		for i := range p.Refused.Latest {
			p.Refused.Latest[i].Tag = ""
		}
	}
	p.Properties = v.propertiesOf(&p.Refused, query)
	if q.Text != "" {
		p.Keys, err = v.keysWith(q)
	}
	return p, err
}

// propertiesOf returns what requests share, besides what a query asks for.
func (v *visit) propertiesOf(r *operator.Refusals, query url.Values) (list []property) {
	for _, kind := range properties {
		p := property{Name: kind.name, Title: kind.title}
		for _, share := range kind.shares(r) {
			row := shareRow{RefusedShare: share}
			value := share.Text
			if kind.name == "client" {
				// which may be masked
				if value = share.Client; share.Tag != "" && (value == "" || strings.HasPrefix(value, "key:")) {
					value = operator.Target{Kind: operator.Tag, Value: share.Tag}.String()
				}
				row.Who = v.Who(named(share.Text, share.Client), value, share.Tag)
				value = row.Who.Handle
			}
			if value != "" {
				row.URL = urlOf("requests", query, kind.name, value)
			}
			p.Shares = append(p.Shares, row)
		}
		if len(p.Shares) > 0 && !query.Has(kind.name) {
			list = append(list, p)
		}
	}
	return list
}

// keysWith returns the keys in memory that show a text.
func (v *visit) keysWith(q operator.RefusalsQuery) (found []operator.Key, err error) {
	keys, err := v.d.options.Service.Keys(v.r.Context(), operator.KeysQuery{Zone: q.Zone, N: operator.MaxItems})
	for _, key := range keys {
		if len(found) < clientsShown &&
			strings.Contains(strings.ToLower(v.Who(key.Text, key.Client, "").Text), strings.ToLower(q.Text)) {
			found = append(found, key)
		}
	}
	return found, err
}

// search explains the client that a text names, or shows the requests and clients that have the text in them.
func (v *visit) search() {
	typed := strings.TrimSpace(v.r.PostForm.Get("client"))
	target, err := operator.ParseTarget(typed)
	if err == nil {
		body, err := loadExplain(v)
		switch {
		case err == nil:
			v.render(http.StatusOK, "explain", pages["explain"].title, "explain", body)
			return
		case target.Kind != operator.Reference || strings.Contains(typed, ":"):
			// not just a word that looks like a reference
			v.fail(err)
			return
		}
	}
	if typed == "" {
		v.fail(operator.Errorf(http.StatusBadRequest,
			"Type a client, or a part of a path, a program, a network or a host."))
		return
	}
	// relative: the path's beginning isn't known here
	v.w.Header().Set("Location", urlOf("requests", nil, "text", seals.seal(v.User, typed)))
	v.w.WriteHeader(http.StatusSeeOther)
}
