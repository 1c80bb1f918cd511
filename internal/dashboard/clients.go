package dashboard

import (
	"maps"
	"net/url"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// clientsPage lists the clients in memory.
type clientsPage struct {
	sorting
	Zones   []string
	Zone    string // the listed zone; "" for all
	Blocked bool   // lists only currently blocked clients
	Keys    []operator.Key
	Full    bool // there may be more
}

const clientsShown = 50

func loadClients(v *visit) (any, error) {
	q := v.r.URL.Query()
	p := clientsPage{sorting: sortingOf("clients", q, string(operator.ByUsed), string(operator.ByRefused)), Zone: q.Get("zone"), Blocked: q.Get("blocked") == "1"}
	zones, err := v.d.options.Service.Zones(v.r.Context())
	if err != nil {
		return nil, err
	}
	p.Zones = zoneNames(zones)
	p.Keys, err = v.d.options.Service.Keys(v.r.Context(), operator.KeysQuery{Zone: p.Zone, Blocked: p.Blocked, By: operator.By(p.By), N: clientsShown})
	p.Full = len(p.Keys) == clientsShown
	return p, err
}

// sorting is the order of a page's rows, by descending values of a column. Templates call its
// methods.
type sorting struct {
	page  string
	query url.Values
	By    string
}

// sortingOf returns the order that a query asks for: by one of the columns, or by the first.
func sortingOf(page string, query url.Values, columns ...string) sorting {
	s := sorting{page, query, columns[0]}
	if by := query.Get("by"); slices.Contains(columns, by) {
		s.By = by
	}
	return s
}

// URL returns the URL of the page sorted by another column.
func (s sorting) URL(by string) string {
	query := maps.Clone(s.query)
	query.Set("by", by)
	return s.page + "?" + query.Encode()
}

func zoneNames(zones []operator.Zone) (names []string) {
	for _, zone := range zones {
		names = append(names, zone.Name)
	}
	return names
}
