package epoch

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
)

var t0 = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func at(t testing.TB, k *Keys, now time.Time, days int) Pair {
	t.Helper()
	pair, err := k.At(now, days)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func name(n identity.Hasher) [16]byte { return n.Hash(1, "key") }

func files(t *testing.T, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestNamesLastForADay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.epochs")
	f := In(path)
	today := at(t, f, t0, 1)
	if today.Previous != nil {
		t.Error("there are names of a day on which nothing was named")
	}
	midnight := time.Date(2026, 5, 5, 0, 0, 0, 0, time.UTC)
	if !today.Ends.Equal(midnight) {
		t.Errorf("ends at %v, want %v", today.Ends, midnight)
	}
	if same := at(t, f, midnight.Add(-1), 1); name(same.Current) != name(today.Current) || same.Epoch != today.Epoch {
		t.Error("other names before midnight")
	}
	next := at(t, f, midnight, 1)
	if name(next.Current) == name(today.Current) || next.Epoch != today.Epoch+1 {
		t.Error("the same names after midnight")
	}
	if next.Previous == nil || name(*next.Previous) != name(today.Current) {
		t.Error("yesterday's names are not known")
	}
	// A day on which nothing is named has no key, then or later.
	if third := at(t, f, midnight.Add(2*day), 1); third.Previous != nil {
		t.Error("there are names of a day that was left out")
	}
}

func TestNamesAreTheSameEverywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.epochs")
	pairs := make([]Pair, 20)
	for _, now := range []time.Time{t0, t0.Add(day)} {
		var wg sync.WaitGroup
		for i := range pairs {
			wg.Go(func() { pairs[i], _ = In(path).At(now, 1) })
		}
		wg.Wait()
		for _, pair := range pairs {
			if pair.Current == (identity.Hasher{}) || name(pair.Current) != name(pairs[0].Current) {
				t.Fatal("two that begin at once have other names")
			}
			if now != t0 && name(*pair.Previous) != name(*pairs[0].Previous) {
				t.Fatal("two have other names for yesterday")
			}
		}
	}
}

// The former key is available just after midnight, because another process may have used it just
// before.
func TestPreviousKeyMadeLate(t *testing.T) {
	path := t.TempDir()
	here, there := In(path), In(path)
	midnight := begin(number(t0, 1)+1, 1)
	if pair := at(t, here, midnight, 1); pair.Previous != nil {
		t.Fatal("there are names of yesterday")
	}
	late := at(t, there, midnight.Add(-time.Millisecond), 1)
	if pair := at(t, here, midnight.Add(time.Second), 1); pair.Previous == nil || name(*pair.Previous) != name(late.Current) {
		t.Error("what another process named before midnight isn't known")
	}
}

func TestLongerEpochs(t *testing.T) {
	f := In(t.TempDir())
	week := at(t, f, t0, 7)
	if length := week.Ends.Sub(begin(week.Epoch, 7)); length != 7*day {
		t.Errorf("a week has %v", length)
	}
	if same := at(t, f, week.Ends.Add(-1), 7); name(same.Current) != name(week.Current) {
		t.Error("other names in the same week")
	}
	if next := at(t, f, week.Ends, 7); next.Previous == nil || name(*next.Previous) != name(week.Current) {
		t.Error("last week's names are not known")
	}
	if today := at(t, f, t0, 1); name(today.Current) == name(week.Current) {
		t.Error("a day has the names of the week")
	}
	if _, err := f.At(t0, 0); err == nil {
		t.Error("an epoch of no days was taken")
	}
}

// A value that is kept for no longer than an epoch is found under one of two names.
func FuzzFound(f *testing.F) {
	f.Add(int64(0), int64(day), int64(day))
	f.Add(int64(-1), int64(7*day)-1, int64(1))
	f.Add(t0.Unix(), int64(day)+1, int64(day)+1)
	f.Fuzz(func(t *testing.T, named, remembered, age int64) {
		if remembered < 0 || remembered > int64(366*day) || age < 0 || age > remembered || named < -1<<40 || named > 1<<40 {
			return
		}
		days := Days(time.Duration(remembered))
		then := time.Unix(named, 0)
		first, last := number(then, days), number(then.Add(time.Duration(age)), days)
		if last != first && last != first+1 {
			t.Errorf("named in epoch %d of %d days, looked for in %d", first, days, last)
		}
		if b := begin(first, days); b.After(then) || !then.Before(begin(first+1, days)) {
			t.Errorf("%v is not in the epoch that begins at %v", then, b)
		}
		if days > 1 && time.Duration(days-1)*day >= time.Duration(remembered) {
			t.Errorf("%d days for %v", days, time.Duration(remembered))
		}
	})
}

func TestSweepDestroysOldKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.epochs")
	f := In(path)
	for i := range 4 {
		at(t, f, t0.Add(time.Duration(i)*day), 1)
		at(t, f, t0.Add(time.Duration(i)*day), 3)
	}
	now := t0.Add(3 * day)
	keep := []string{"notes.txt", "1d-.key", "1d-1.key.bak"}
	for _, other := range keep {
		if err := os.WriteFile(filepath.Join(path, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, epoch := range []int64{number(now, 1), number(now, 1) - 1} {
		keep = append(keep, fileName(epoch, 1))
	}
	for _, epoch := range []int64{number(now, 3), number(now, 3) - 1} {
		keep = append(keep, fileName(epoch, 3))
	}
	slices.Sort(keep)
	if err := f.Sweep(now); err != nil {
		t.Fatal(err)
	}
	if left := files(t, path); !slices.Equal(left, keep) {
		t.Errorf("left: %q, want %q", left, keep)
	}
	before := at(t, f, now, 1)
	if before.Previous == nil {
		t.Error("yesterday's key was destroyed")
	}
	// With nothing named since, the keys go all the same.
	if err := f.Sweep(now.Add(10 * day)); err != nil {
		t.Fatal(err)
	}
	if left := files(t, path); !slices.Equal(left, []string{"1d-.key", "1d-1.key.bak", "notes.txt"}) {
		t.Errorf("left after days without a request: %q", left)
	}
	f.pairs.Range(func(days, pair any) bool {
		t.Errorf("in memory there is still the key of an epoch of %d days", days)
		return true
	})
}

// Keys that are removed while in use are written again, except those that would be destroyed.
func TestKeepMakesRemovedKeysAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.epochs")
	f := In(path)
	at(t, f, t0, 1)
	week := at(t, f, t0, 7)
	today := at(t, f, t0.Add(day), 1)
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Keep(t0.Add(day)); err != nil {
			t.Fatal(err)
		}
	}
	again := at(t, In(path), t0.Add(day), 1)
	if name(again.Current) != name(today.Current) || again.Previous == nil || name(*again.Previous) != name(*today.Previous) {
		t.Error("others have other names for today or yesterday")
	}
	if again := at(t, In(path), t0.Add(day), 7); name(again.Current) != name(week.Current) {
		t.Error("others have other names for this week")
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Keep(t0.Add(2 * day)); err != nil {
		t.Fatal(err)
	}
	if left, want := files(t, path), []string{fileName(today.Epoch, 1), fileName(week.Epoch, 7)}; !slices.Equal(left, want) {
		t.Errorf("made again: %q, want %q", left, want)
	}
}

// A key is overwritten before it is removed, so that another name of the file, which a crash may
// have left, doesn't preserve it.
func TestDestroyedKeysAreOverwritten(t *testing.T) {
	path := t.TempDir()
	at(t, In(path), t0, 1)
	twin := filepath.Join(path, "twin")
	if err := os.Link(filepath.Join(path, files(t, path)[0]), twin); err != nil {
		t.Skipf("no links here: %v", err)
	}
	if err := In(path).Sweep(t0.Add(2 * day)); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(twin); err != nil || !bytes.Equal(content, make([]byte, keySize)) {
		t.Errorf("%x is left, %v", content, err)
	}
}

func TestSweepRemovesWhatCrashesLeft(t *testing.T) {
	path := t.TempDir()
	for name, age := range map[string]time.Duration{".tally-key-1": 2 * time.Hour, ".tally-key-2": time.Minute} {
		file := filepath.Join(path, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, t0, t0.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := In(path).Sweep(t0); err != nil {
		t.Fatal(err)
	}
	if left := files(t, path); !slices.Equal(left, []string{".tally-key-2"}) {
		t.Errorf("left: %q", left)
	}
}

func TestLookingMakesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.epochs")
	if err := In(path).Sweep(t0); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the folder was made: %v", err)
	}
	at(t, In(path), t0, 1)
	if left := files(t, path); len(left) != 1 {
		t.Errorf("more than today's key was made: %q", left)
	}
}

func TestDamagedKeys(t *testing.T) {
	for _, when := range []time.Time{t0, t0.Add(-day)} {
		path := t.TempDir()
		for _, content := range []string{"", "short", string(make([]byte, keySize)), string(make([]byte, keySize+1))} {
			if err := os.WriteFile(filepath.Join(path, fileName(number(when, 1), 1)), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := In(path).At(t0, 1); err == nil {
				t.Errorf("%q was taken for a key", content)
			}
		}
	}
}

// Keys in memory are found and destroyed like those in a folder.
func TestKeysInMemory(t *testing.T) {
	k := InMemory()
	today, week := at(t, k, t0, 1), at(t, k, t0, 7)
	if name(today.Current) == name(week.Current) || name(today.Current) == name(at(t, InMemory(), t0, 1).Current) {
		t.Error("two keys are the same")
	}
	if err := k.Keep(t0); err != nil {
		t.Error(err)
	}
	next := at(t, k, t0.Add(day), 1)
	if next.Previous == nil || name(*next.Previous) != name(today.Current) || name(next.Current) == name(today.Current) {
		t.Error("yesterday's names are not known")
	}
	for _, c := range []struct {
		after time.Duration
		keys  int
	}{{day, 3}, {2 * day, 2}, {14 * day, 0}} {
		if err := k.Sweep(t0.Add(c.after)); err != nil {
			t.Error(err)
		}
		if len(k.store.(*memory).keys) != c.keys {
			t.Errorf("after %v there are %d keys, want %d", c.after, len(k.store.(*memory).keys), c.keys)
		}
	}
}

func BenchmarkAt(b *testing.B) {
	f := In(b.TempDir())
	at(b, f, t0, 1)
	b.ReportAllocs()
	for b.Loop() {
		f.At(t0, 1)
	}
}
