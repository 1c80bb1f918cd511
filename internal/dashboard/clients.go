package dashboard

import "github.com/caddy-tally/caddy-tally/internal/operator"

// clientsPage lists what memory holds of clients.
type clientsPage struct {
	Zones   []string
	Zone    string // that is listed; "" for all
	By      operator.By
	Blocked bool // only those that are refused now
	Keys    []operator.Key
	Full    bool // there may be more
}

const clientsShown = 50

func loadClients(v *visit) (any, error) {
	q := v.r.URL.Query()
	p := clientsPage{Zone: q.Get("zone"), By: operator.ByUsed, Blocked: q.Get("blocked") == "1"}
	if q.Get("by") == string(operator.ByRefused) {
		p.By = operator.ByRefused
	}
	zones, err := v.d.options.Service.Zones(v.r.Context())
	if err != nil {
		return nil, err
	}
	p.Zones = zoneNames(zones)
	p.Keys, err = v.d.options.Service.Keys(v.r.Context(), operator.KeysQuery{Zone: p.Zone, Blocked: p.Blocked, By: p.By, N: clientsShown})
	p.Full = len(p.Keys) == clientsShown
	return p, err
}

func zoneNames(zones []operator.Zone) (names []string) {
	for _, zone := range zones {
		names = append(names, zone.Name)
	}
	return names
}
