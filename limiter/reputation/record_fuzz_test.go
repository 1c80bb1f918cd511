package reputation

import (
	"encoding/binary"
	"testing"
	"time"
)

// FuzzRecord commits offenses at times that need not increase and checks the invariants of the
// package after each.
func FuzzRecord(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), byte(0), int64(0), 0, []byte{5, 0, 60})
	f.Add(int64(1), int64(1)<<62, int64(-1), byte(9), int64(1)<<62, -4, []byte{200, 255, 255, 0, 0, 1})
	f.Fuzz(func(t *testing.T, now, at, lost int64, level byte, until int64, bans int, steps []byte) {
		now = max(now, 0) % (1 << 61)
		r := Record{At: at, Lost: lost, Level: Level(level), Until: until, Bans: bans, Past: ParsePast(steps)}
		r.Clamp(now)
		check(t, &r, now)
		rule := Ban{After: 3, Within: time.Hour, For: time.Minute}
		for ; len(steps) >= 3; steps = steps[3:] {
			now = max(now+int64(int16(binary.BigEndian.Uint16(steps[1:])))*int64(time.Second), 0)
			before, wasBanned := r.Score(max(now, r.At)), r.Banned(max(now, r.At))
			banned := r.Commit(Offense{Violation: Violation{At: now}, Points: int(int8(steps[0])), Ban: rule})
			switch {
			case r.Score(r.At) > before+1e-6:
				t.Fatalf("an offense raised the score from %v to %v", before, r.Score(r.At))
			case wasBanned && banned:
				t.Fatal("banned while banned")
			case banned && (r.Until <= r.At || r.Until > r.At+int64(DefaultMost)):
				t.Fatalf("banned for %v", time.Duration(r.Until-r.At))
			}
			check(t, &r, now)
		}
	})
}

// check checks invariants of a record at any time.
func check(t *testing.T, r *Record, now int64) {
	t.Helper()
	score, level := r.Score(now), r.LevelAt(now)
	if !(score >= 0 && score <= Best) {
		t.Fatalf("score is %v", score)
	}
	if level > Critical || level.Share() < 10 || level < levelOf(score) {
		t.Fatalf("level is %v at %v points", level, score)
	}
	for _, later := range []time.Duration{time.Second, time.Hour, 7 * HalfLife} {
		then := now + int64(later)
		if r.Score(then) < score-1e-6 || r.LevelAt(then) > level {
			t.Fatalf("%v later the score fell from %v to %v, level %v to %v", later, score, r.Score(then), level, r.LevelAt(then))
		}
	}
	if end := r.Expires(); r.LevelAt(end) != Low || r.Banned(end) {
		t.Fatalf("expires at %d: level %v, banned %v", end, r.LevelAt(end), r.Banned(end))
	}
	if len(r.Past) > MaxPast {
		t.Fatalf("%d violations are remembered", len(r.Past))
	}
}
