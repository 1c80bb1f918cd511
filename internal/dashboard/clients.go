package dashboard

import (
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// clientsPage lists the clients in memory.
type clientsPage struct {
	sorting
	Zones   []string
	Zone    string // the listed zone; "" for all
	Blocked bool   // lists only currently blocked clients
	Keys    []operator.Key
	Earlier string // the URL of the page before; "" on the first
	Later   string // the URL of the next page; "" on the last
	More    bool   // there may be more than pages show
}

const clientsShown = 50

func loadClients(v *visit) (any, error) {
	q := v.r.URL.Query()
	p := clientsPage{sorting: sortingOf("clients", q, string(operator.ByUsed), string(operator.ByRefused)),
		Zone: q.Get("zone"), Blocked: q.Get("blocked") == "1"}
	zones, err := v.d.options.Service.Zones(v.r.Context())
	if err != nil {
		return nil, err
	}
	p.Zones = zoneNames(zones)
	number, _ := strconv.Atoi(q.Get("page")) // 0 and 1 are the first
	begin := (max(1, min(number, operator.MaxItems/clientsShown)) - 1) * clientsShown
	keys, err := v.d.options.Service.Keys(v.r.Context(),
		operator.KeysQuery{Zone: p.Zone, Blocked: p.Blocked, By: operator.By(p.By),
			N: min(begin+clientsShown+1, operator.MaxItems)})
	end := min(begin+clientsShown, len(keys))
	p.Keys = keys[min(begin, end):end]
	if begin > 0 {
		p.Earlier = urlOf("clients", q, "page", strconv.Itoa(begin/clientsShown))
	}
	if end < len(keys) {
		p.Later = urlOf("clients", q, "page", strconv.Itoa(begin/clientsShown+2))
	}
	p.More = end == operator.MaxItems
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

// Sorted returns the URL of the page sorted by another column, from its first row.
func (s sorting) Sorted(by string) string {
	query := maps.Clone(s.query)
	query.Del("page")
	return urlOf(s.page, query, "by", by)
}

// urlOf returns the URL of a page with another value in its query, or without it if value is "".
func urlOf(page string, query url.Values, name, value string) string {
	changed := make(url.Values)
	maps.Copy(changed, query)
	if changed.Del(name); value != "" {
		changed.Set(name, value)
	}
	return page + "?" + changed.Encode()
}

func zoneNames(zones []operator.Zone) (names []string) {
	for _, zone := range zones {
		names = append(names, zone.Name)
	}
	return names
}
