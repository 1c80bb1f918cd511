package replay

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// peaks are the clients of a limit with the highest peaks, highest first.
type peaks []peak

// peak is the most units that a client wanted within a window.
type peak struct {
	key   string
	units int64
}

// maxPeaks is how many of them are known.
const maxPeaks = 8

// note notes that a client has wanted so many units.
func (p *peaks) note(key []byte, units int64) {
	if n := len(*p); n == maxPeaks && units <= (*p)[n-1].units {
		return
	}
	i := slices.IndexFunc(*p, func(of peak) bool { return of.key == string(key) })
	if i < 0 {
		if len(*p) == maxPeaks {
			*p = (*p)[:maxPeaks-1]
		}
		*p, i = append(*p, peak{key: string(key)}), len(*p)
	}
	(*p)[i].units = max((*p)[i].units, units)
	slices.SortStableFunc(*p, func(a, b peak) int { return cmp.Compare(b.units, a.units) })
}

const (
	// manyClients is from how many clients on the highest peaks don't decide what is suggested.
	manyClients = 1000
	// farAbove is how many times the next peak one is that is left aside, and notFar up to where
	// none is, because people differ that much.
	farAbove = 4
	notFar   = 20
)

// withoutOutliers returns ascending peaks without the highest ones that are far above the others,
// where few clients came: a single scraper isn't to decide what people may do. At most a fifth is left
// out.
func withoutOutliers(ascending []int64) []int64 {
	if len(ascending) >= manyClients {
		return ascending
	}
	for i := len(ascending) - len(ascending)/5; i < len(ascending); i++ {
		if i > 0 && ascending[i] > max(farAbove*ascending[i-1], notFar) {
			return ascending[:i]
		}
	}
	return ascending
}

// leftOut says whose peaks are left out, all of which are above most.
func (p peaks) leftOut(n int, most int64, reveal bool) string {
	text := fmt.Sprintf(" Left out, because the others want far less: %s", counted(int64(n), "client"))
	named := 0
	for _, of := range p {
		if of.units > most && named < n {
			separator := ","
			if named == 0 {
				separator = ":"
			}
			text += fmt.Sprintf("%s %s with %s", separator, of.client(reveal), wording.Number(of.units))
			named++
		}
	}
	return text + "."
}

// client returns the text of the client. Where no zone counts, its key is an address as in the log.
func (p peak) client(reveal bool) string {
	addr, err := netip.ParseAddr(p.key)
	if err != nil {
		return clientText([]byte(p.key), reveal)
	}
	addr = addr.Unmap().WithZone("")
	return clientText(identity.AppendPrefix([]byte{identity.TagNetwork}, netip.PrefixFrom(addr, addr.BitLen())), reveal)
}
