package reputation

import (
	"math"
	"reflect"
	"testing"
	"time"
)

const start = int64(1_800_000_000_000_000_000)

func hours(n float64) int64 { return int64(n * float64(time.Hour)) }

// scoring returns the record of a client with a score.
func scoring(score float64) Record {
	lost := int64(math.Round((Best - score) * point))
	return Record{At: start, Lost: lost, Level: levelOf(score)}
}

func offense(at int64, points int) Offense {
	return Offense{Violation: Violation{At: at, Reason: OverLimit}, Points: points}
}

func TestLevels(t *testing.T) {
	for _, test := range []struct {
		score float64
		level Level
		share int
	}{
		{100, Low, 100}, {75, Low, 100}, {74.999, Medium, 60}, {50, Medium, 60}, {49.999, High, 30},
		{25, High, 30}, {24.999, Critical, 10}, {0, Critical, 10},
	} {
		r := scoring(test.score)
		if level := r.LevelAt(start); level != test.level || level.Share() != test.share {
			t.Errorf("score %v is %v with %d %%, want %v with %d %%", test.score, level, level.Share(), test.level, test.share)
		}
	}
}

func TestLevelImprovesOnlyAboveMargin(t *testing.T) {
	r := scoring(70) // lacks 30; 78 is reached when it lacks 22, 75 when it lacks 25
	at := func(lacking float64) int64 {
		return start + int64(math.Log2(30/lacking)*float64(HalfLife))
	}
	for _, test := range []struct {
		lacking float64
		level   Level
	}{{25, Medium}, {24, Medium}, {22.001, Medium}, {21.999, Low}, {1, Low}} {
		if got := r.LevelAt(at(test.lacking)); got != test.level {
			t.Errorf("when %v points are missing the level is %v, want %v", test.lacking, got, test.level)
		}
	}
}

func TestScoreComesBackByHalves(t *testing.T) {
	r := scoring(20)
	for _, test := range []struct{ after, score float64 }{{0, 20}, {6, 60}, {12, 80}, {24, 95}, {-5, 20}} {
		if got := r.Score(start + hours(test.after)); math.Abs(got-test.score) > 1e-6 {
			t.Errorf("%v h later the score is %v, want %v", test.after, got, test.score)
		}
	}
}

// A steady client that commits no more violations is innocent again some day.
func TestSteadyClientRecovers(t *testing.T) {
	r := scoring(5)
	if got := r.Score(r.Expires()); got < Best-Forgotten-1e-6 {
		t.Errorf("the score is %v when the record expires", got)
	}
	if r.LevelAt(r.Expires()) != Low {
		t.Errorf("the level is %v when the record expires", r.LevelAt(r.Expires()))
	}
	if days := float64(r.Expires()-start) / float64(24*time.Hour); days > 3 {
		t.Errorf("it takes %v days", days)
	}
}

// A pause of five minutes gives an abuser next to nothing.
func TestPauseWashesNobodyClean(t *testing.T) {
	r := scoring(20)
	before := r.Score(start)
	if after := r.Score(start + int64(5*time.Minute)); after-before > 1 {
		t.Errorf("five minutes are worth %v points", after-before)
	}
	if r.LevelAt(start+int64(5*time.Minute)) != Critical {
		t.Error("five minutes are worth a level")
	}
}

func TestOneMistakeChangesNothing(t *testing.T) {
	var r Record
	r.Commit(offense(start, 5))
	if r.LevelAt(start) != Low || r.Banned(start) {
		t.Errorf("after one violation: %+v", r)
	}
}

func TestScoreStopsAtZero(t *testing.T) {
	var r Record
	for i := range int64(100) {
		r.Commit(offense(start+i, 25))
	}
	if got := r.Score(start + 99); got != 0 {
		t.Errorf("score is %v", got)
	}
	if len(r.Past) != MaxPast || r.Past[MaxPast-1].At != start+99 {
		t.Errorf("%d violations are remembered", len(r.Past))
	}
}

func TestBan(t *testing.T) {
	rule := Ban{After: 5, Within: 10 * time.Minute, For: time.Hour}
	var r Record
	now := start
	violate := func(n int) {
		t.Helper()
		for i := range n {
			now += int64(time.Minute)
			if r.Commit(Offense{Violation: Violation{At: now}, Ban: rule}) != (i == n-1 && n == 5) {
				t.Fatalf("violation %d of %d", i+1, n)
			}
		}
	}
	for _, hours := range []int64{1, 2, 4, 8, 16, 24, 24} {
		violate(5)
		if end := now + hours*int64(time.Hour); r.Until != end || !r.Banned(end-1) || r.Banned(end) {
			t.Fatalf("banned for %v, want %v h", time.Duration(r.Until-now), hours)
		}
		r.Commit(Offense{Violation: Violation{At: now + 1}, Ban: rule, Points: 50}) // while banned
		now = r.Until
	}
	violate(4)
	now += int64(Probation)
	violate(5)
	if got := time.Duration(r.Until - now); got != time.Hour {
		t.Errorf("after a day without one, a ban is %v long, want 1h", got)
	}
}

func TestViolationsOfOtherZonesDoNotBan(t *testing.T) {
	rule := Ban{After: 2, Within: time.Hour, For: time.Hour, Zone: 7}
	var r Record
	for i, zone := range []uint32{7, 8, 8, 8} {
		if r.Commit(Offense{Violation: Violation{At: start + int64(i), Zone: zone}, Ban: rule}) {
			t.Fatalf("banned for a violation in zone %d", zone)
		}
	}
	if !r.Commit(Offense{Violation: Violation{At: start + 9, Zone: 7}, Ban: rule}) {
		t.Error("not banned for two violations in zone 7")
	}
}

func TestViolationsTooFarApartDoNotBan(t *testing.T) {
	rule := Ban{After: 5, Within: 10 * time.Minute, For: time.Hour}
	var r Record
	for i := range int64(100) {
		if r.Commit(Offense{Violation: Violation{At: start + i*int64(150*time.Second)}, Ban: rule}) {
			t.Fatalf("banned at violation %d, and only 4 lie in 10 minutes", i+1)
		}
	}
}

func TestClamp(t *testing.T) {
	worst := Record{At: math.MaxInt64, Lost: math.MaxInt64, Level: 255, Until: math.MaxInt64, Bans: math.MaxInt, Past: make([]Violation, 100)}
	worst.Clamp(start)
	if worst.Score(start) != 0 || worst.LevelAt(start) != Critical || worst.Until != start+int64(MaxBan) || len(worst.Past) != MaxPast {
		t.Errorf("got %+v", worst)
	}
	best := Record{At: math.MinInt64, Lost: math.MinInt64, Until: math.MinInt64, Bans: math.MinInt}
	best.Clamp(start)
	if !reflect.DeepEqual(best, Record{}) {
		t.Errorf("got %+v", best)
	}
}

// Violations from a time when the clock was wrong don't count, and hide no later ones.
func TestClampDropsViolationsToCome(t *testing.T) {
	r := Record{Past: []Violation{{At: start - 1, Reason: Forged}, {At: start + hours(24), Reason: Trapped}, {At: start + int64(time.Second), Reason: OverLimit}}}
	r.Clamp(start)
	if len(r.Past) != 2 || r.Last(Trapped) != 0 || r.Last(Forged) != start-1 || r.Last(OverLimit) != start+int64(time.Second) {
		t.Errorf("got %+v, want all but what lies a day ahead", r.Past)
	}
}

func TestPastAsBytes(t *testing.T) {
	r := Record{Past: []Violation{{At: start, Zone: 1, Reason: Forged}, {At: -1, Zone: math.MaxUint32, Reason: 200}}}
	if got := ParsePast(r.AppendPast(nil)); !reflect.DeepEqual(got, r.Past) {
		t.Errorf("got %+v, want %+v", got, r.Past)
	}
	if got := ParsePast(make([]byte, recorded-1)); got != nil {
		t.Errorf("got %+v from half a violation", got)
	}
}
