package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// peaks are the clients of a limit with the highest peaks, highest first.
type peaks []peak

// peak is the most units that a client wanted within a window.
type peak struct {
	key   string
	units int64
}

// maxPeaks is the number of peaks that are kept.
const maxPeaks = 8

// note notes the units that a client wanted.
func (p *peaks) note(key []byte, units int64) {
	if n := len(*p); n == maxPeaks && units <= (*p)[n-1].units {
		return
	}
	i := slices.IndexFunc(*p, func(pk peak) bool { return pk.key == string(key) })
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
	// manyClients is the number of clients from which the highest peaks don't affect the
	// suggestion.
	manyClients = 1000
	// A peak is an outlier if it is more than farAbove times the next lower one and above notFar.
	// Up to notFar people differ that much.
	farAbove = 4
	notFar   = 20
)

// withoutOutliers removes the highest peaks if they are far above the others, unless there are many
// clients: a single scraper must not determine people's limits. It removes at most a fifth.
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

// leftOut describes the n clients whose peaks, all above most, are left out.
func (p peaks) leftOut(n int, most int64, reveal bool) string {
	text := fmt.Sprintf(" Left out, because the others want far less: %s", wording.Counted(int64(n), "client"))
	named := 0
	for _, pk := range p {
		if pk.units > most && named < n {
			separator := ","
			if named == 0 {
				separator = ":"
			}
			text += fmt.Sprintf("%s %s with %s", separator, clientText([]byte(pk.key), reveal),
				wording.Number(pk.units))
			named++
		}
	}
	return text + "."
}
