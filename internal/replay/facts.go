package replay

import (
	"net/http"
	"net/netip"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
)

// logFacts are gaps in a log that a replay can't fill.
type logFacts struct {
	requests  int64
	noFields  int64 // without any header field
	partial   int64 // with some header fields only
	hidden    map[string]int64
	noHost    int64
	noScheme  int64
	rounded   int64
	untimed   int64 // without their duration
	bodies    int64
	addresses int64 // with a plain address
	zeroEnd   int64 // IPv4 addresses that end in 0
	hashed    int64 // with a text instead
}

// maxHidden bounds the number of counted header fields.
const maxHidden = 100

func (f *logFacts) note(r *accesslog.Record) {
	f.requests++
	count(&f.noHost, r.Host == "")
	count(&f.noScheme, !r.SchemeKnown)
	count(&f.rounded, r.Rounded)
	count(&f.untimed, r.Duration == 0)
	count(&f.bodies, r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch)
	if !r.AllFields {
		count(&f.noFields, len(r.Header) == 0)
		count(&f.partial, len(r.Header) > 0)
	}
	for _, name := range r.Hidden {
		if _, known := f.hidden[name]; known || len(f.hidden) < maxHidden {
			f.hidden[name]++
		}
	}
	address, err := netip.ParseAddr(r.ClientIP)
	if err != nil {
		f.hashed++
		return
	}
	f.addresses++
	if address.Is4() {
		count(&f.zeroEnd, address.As4()[3] == 0)
	}
}

func count(n *int64, yes bool) {
	if yes {
		*n++
	}
}

// note compares a verdict with that of the Caddy that wrote the log, if it had this module.
func (a *Agreement) note(r *accesslog.Record, v *Verdict) {
	was, now := r.Refused.Zone != "", v.Outcome == Refused
	a.Requests++
	count(&a.Log, was)
	count(&a.Both, was && now)
	count(&a.OnlyReplay, now && !was)
	count(&a.OnlyLog, was && !now)
}
