package apikeys

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
)

// watched is a file of keys, and the reports of its changes.
type watched struct {
	*File
	t       *testing.T
	path    string
	reports []error
}

func (w *watched) changed(_ *Set, err error) { w.reports = append(w.reports, err) }

// write writes the whole file, as a command or an editor does.
func (w *watched) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path+".tmp", []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(w.path+".tmp", w.path); err != nil {
		w.t.Fatal(err)
	}
}

// wantClient checks the holder of a key, a second later.
func (w *watched) wantClient(key, name string) {
	w.t.Helper()
	time.Sleep(time.Second) // of the bubble's time
	client := w.Fresh().Find(key, today)
	if got := client != nil && client.Name == name; got != (name != "") || name == "" && client != nil {
		w.t.Errorf("%s is %+v, want %q", key, client, name)
	}
}

// wantTold checks the number of reported changes of the file, and the last one.
func (w *watched) wantTold(times int, last string) {
	w.t.Helper()
	if len(w.reports) != times {
		w.t.Fatalf("told %d times, want %d: %v", len(w.reports), times, w.reports)
	}
	if err := w.reports[times-1]; last == "" && err != nil || last != "" && (err == nil || !strings.Contains(err.Error(), last)) {
		w.t.Fatalf("told %v, want %q", err, last)
	}
}

const salted = "salt " + testSalt + "\n"

func watch(t *testing.T, text string) *watched {
	w := &watched{t: t, path: filepath.Join(t.TempDir(), "api_keys")}
	if text != "" {
		w.write(text)
	}
	var err error
	if w.File, err = Open(w.path, []string{"free", "gold"}, w.changed); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestFileIsReadAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := watch(t, salted+line("acme", "free", "k1"))
		w.wantClient("k1", "acme")
		w.wantClient("k2", "")
		if len(w.reports) > 0 {
			t.Errorf("told of a file that has not changed: %v", w.reports)
		}
		w.write(salted + line("acme", "gold", "k1") + line("b", "free", "k2"))
		if w.Fresh().Find("k2", today) != nil {
			t.Error("the file is looked at more than once a second")
		}
		w.wantClient("k2", "b")
		w.wantTold(1, "")

		// A bad line leaves the old keys in force, and is told once.
		w.write(salted + line("acme", "silver", "k3"))
		w.wantClient("k2", "b")
		w.wantClient("k3", "")
		w.wantTold(2, "line 2: acme has the tier")
		w.write(salted + line("acme", "free", "k3"))
		w.wantClient("k2", "")
		w.wantClient("k3", "acme")
		w.wantTold(3, "")

		// So does a file that is gone or empty.
		os.Remove(w.path)
		w.wantClient("k3", "acme")
		w.wantClient("k3", "acme")
		w.wantTold(4, "api_keys")
		w.write("")
		w.wantClient("k3", "acme")
		w.wantTold(5, "there is no line `salt …`")
		w.write(salted + line("c", "free", "k4"))
		w.wantClient("k4", "c")
		w.wantTold(6, "")
	})
}

// An unreadable file is read once it is readable, even if its content hasn't changed.
func TestFileThatMayNotBeRead(t *testing.T) {
	if os.Getuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("everything may be read")
	}
	bubble.Test(t, func(t *testing.T) {
		w := watch(t, salted+line("acme", "free", "k1"))
		w.write(salted + line("acme", "free", "k2"))
		if err := os.Chmod(w.path, 0); err != nil {
			t.Fatal(err)
		}
		w.wantClient("k1", "acme")
		w.wantClient("k1", "acme")
		w.wantTold(1, "permission denied")
		if trouble := w.Trouble(); trouble == nil || time.Since(trouble.Since) != time.Second {
			t.Errorf("the trouble is %+v", trouble)
		}
		if err := os.Chmod(w.path, 0o600); err != nil {
			t.Fatal(err)
		}
		w.wantClient("k2", "acme")
		w.wantTold(2, "")
		if trouble := w.Trouble(); trouble != nil {
			t.Errorf("the trouble goes on: %+v", trouble)
		}
	})
}

func TestFileThatComesLater(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := watch(t, "")
		w.wantClient("k1", "")
		if len(w.reports) > 0 {
			t.Errorf("told of a file that is not there: %v", w.reports)
		}
		w.write(salted + line("acme", "free", "k1"))
		w.wantClient("k1", "acme")
		w.wantTold(1, "")
	})
}

func TestOpenRefusesWhatIsNoFileOfKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api_keys")
	if err := os.WriteFile(path, []byte(salted+"acme free\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, nil, nil); err == nil || err.Error() != "apikeys: "+path+": line 2: has 2 words, expected three: name, tier and hash; or until and a time behind them" {
		t.Errorf("a bad line: %v", err)
	}
	if _, err := Open(filepath.Dir(path), nil, nil); err == nil {
		t.Error("a folder is taken for a file of keys")
	}
}

func TestKeysAreMadeListedAndRevoked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "api_keys")
	keys := make(map[string]bool)
	for _, client := range []Holder{{Name: "acme", Tier: "free"}, {Name: "vendor/product", Tier: "gold"}, {Name: "acme", Tier: "free", Expires: today.Add(time.Hour)}} {
		key, err := New(path, client)
		if err != nil {
			t.Fatal(err)
		}
		if keys[key] || len(key) < 32 || !strings.HasPrefix(key, keyPrefix) {
			t.Errorf("the key of %v is %q", client, key)
		}
		keys[key] = true
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		set, err := Parse(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Find(key, today); got == nil || *got != client {
			t.Errorf("the key of %v is %v's", client, got)
		}
		if strings.Contains(string(text), strings.TrimPrefix(key, keyPrefix)) {
			t.Error("the key is in the file")
		}
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	entries := mustList(t, path, 3)
	if n, err := Revoke(path, "acme", entries[2].ID); n != 1 || err != nil {
		t.Errorf("revoked %d, %v", n, err)
	}
	if left := mustList(t, path, 2); left[0] != entries[0] || left[1] != entries[1] {
		t.Errorf("left are %v of %v", left, entries)
	}
	if _, err := Revoke(path, "vendor", ""); err == nil || !strings.HasSuffix(err.Error(), "there is no key of vendor") {
		t.Errorf("revoking a name that has none: %v", err)
	}
	if n, err := Revoke(path, "acme", ""); n != 1 || err != nil {
		t.Errorf("revoked %d, %v", n, err)
	}
	mustList(t, path, 1)
}

func mustList(t *testing.T, path string, want int) []Entry {
	t.Helper()
	entries, err := List(path)
	if err != nil || len(entries) != want {
		t.Fatalf("%d keys, %v, want %d", len(entries), err, want)
	}
	return entries
}

func TestEditLeavesTheRestAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api_keys")
	before := "# ours\n" + salted + "# theirs\n" + line("acme", "free", "k1") + "\n# no end of line"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(path, Holder{Name: "b", Tier: "free"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Revoke(path, "b", ""); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(path); string(after) != before+"\n" {
		t.Errorf("%q has become %q", before, after)
	}
}

// An invalid file, or a change that would make it invalid, leaves it unchanged.
func TestEditThatCannotBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api_keys")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
	write(salted + line("acme", "free", "k1"))
	_, err := New(path, Holder{Name: "acme", Tier: "gold"})
	refused(err, "line 3: acme has the tier gold here and free in line 2")
	_, err = New(path, Holder{Name: "a b", Tier: "gold"})
	refused(err, "the name must be letters")
	_, err = New(path, Holder{Name: "b", Tier: ""})
	refused(err, "a tier must be letters")
	mustList(t, path, 1)

	write(salted + "acme free\n")
	_, err = New(path, Holder{Name: "b", Tier: "free"})
	refused(err, "line 2: has 2 words")
	_, err = Revoke(path, "acme", "")
	refused(err, "line 2: has 2 words")
	_, err = List(path)
	refused(err, "line 2: has 2 words")
}

// Each of several concurrent commands makes its key.
func TestEditsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api_keys")
	made := make([]string, 8)
	var done sync.WaitGroup
	for i := range made {
		done.Go(func() {
			var err error
			if made[i], err = New(path, Holder{Name: "acme", Tier: "free"}); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range made {
		if set.Find(key, today) == nil {
			t.Error("a key that was made is not in the file")
		}
	}
}

// Many goroutines use a file while it changes. Each sees the keys of one version.
func TestFileIsUsedFromManyGoroutines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := watch(t, salted+line("acme", "free", "k1")+line("acme", "free", "k2"))
		var done sync.WaitGroup
		for range 8 {
			done.Go(func() {
				for range 20 {
					keys := w.Fresh()
					if keys.Find("k1", today) != nil == (keys.Find("k3", today) != nil) {
						t.Error("keys of two versions, or of none")
					}
					time.Sleep(time.Second / 3)
				}
			})
		}
		time.Sleep(2 * time.Second)
		w.write(salted + line("acme", "free", "k3"))
		done.Wait()
		w.wantTold(1, "")
	})
}

// A client whose tier changes keeps its keys.
func TestKeysGetAnotherTier(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	one, err := New(path, Holder{Name: "acme", Tier: "free", Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"acme", "acme/part", "other"} {
		if _, err := New(path, Holder{Name: name, Tier: "free"}); err != nil {
			t.Fatal(err)
		}
	}
	before := mustList(t, path, 4)
	if n, err := SetTier(path, "acme", "pro"); n != 2 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	for i, tier := range []string{"pro", "pro", "free", "free"} {
		before[i].Tier = tier
		if after := mustList(t, path, 4)[i]; after != before[i] {
			t.Errorf("got %+v, want %+v", after, before[i])
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if set, err := Parse(text, nil); err != nil || set.Find(one, time.Now()).Tier != "pro" {
		t.Errorf("the key isn't one of its new tier: %v", err)
	}
	for _, wrong := range [][2]string{{"nobody", "pro"}, {"acme", "a b"}} {
		if _, err := SetTier(path, wrong[0], wrong[1]); err == nil {
			t.Errorf("%q is no error", wrong)
		}
	}
}
