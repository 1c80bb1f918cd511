package dashboard

import "github.com/caddy-tally/caddy-tally/internal/operator"

// bansPage lists bans, allowances and raises.
type bansPage struct {
	Bans, Allowances, Raises []operator.Rule
	Conduct                  *operator.ConductBans // says whether there may be more
}

func loadBans(v *visit) (any, error) {
	all, err := v.d.options.Service.Bans(v.r.Context())
	if err != nil {
		return nil, err
	}
	status, err := v.d.options.Service.Status(v.r.Context())
	if err != nil {
		return nil, err
	}
	p := bansPage{Conduct: status.Conduct}
	for _, ban := range all {
		switch ban.Action {
		case operator.Allow:
			p.Allowances = append(p.Allowances, ban)
		case operator.Raise:
			p.Raises = append(p.Raises, ban)
		default:
			p.Bans = append(p.Bans, ban)
		}
	}
	return p, nil
}
