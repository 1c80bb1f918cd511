package reputation

// Level is a range of scores that are treated equally, the best one first.
type Level uint8

// The levels.
const (
	Low      Level = iota // low risk: from 75 points
	Medium                // from 50
	High                  // from 25
	Critical              // below
)

// Levels is the number of levels.
const Levels = int(Critical) + 1

var (
	floors = [Levels]float64{75, 50, 25, 0}
	shares = [Levels]int{100, 60, 30, 10}
	names  = [Levels]string{"low", "medium", "high", "critical"}
)

// Share returns the share of its limits for a client of this level, in percent. In a limit of few
// units that is at least one unit.
func (l Level) Share() int { return shares[min(l, Critical)] }

// String returns the level's name.
func (l Level) String() string { return names[min(l, Critical)] }

// floor returns the lowest score of the level.
func (l Level) floor() float64 { return floors[l] }

// levelOf returns the level that a score lies in.
func levelOf(score float64) Level {
	for l := Low; l < Critical; l++ {
		if score >= l.floor() {
			return l
		}
	}
	return Critical
}
