package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	observing "go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite"
)

// fileStore is a stores.Store with a database file.
type fileStore string

func (fileStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "rate_limit.stores.file"}
}
func (s fileStore) Counts() string   { return string(s) }
func (s fileStore) Identity() string { return string(s) }

func (s fileStore) Open(ctx context.Context, _ time.Duration) (storage.Store, error) {
	return sqlite.Open(ctx, sqlite.Options{Path: string(s)})
}

// virtualClock is the clock of a bubble.
type virtualClock struct{ start time.Time }

func (c virtualClock) Elapsed() int64 { return int64(time.Since(c.start)) }
func (c virtualClock) Read() (r storage.Reading, elapsed int64) {
	now := time.Now().UnixNano()
	return storage.Reading{Wall: now, Steady: now, Source: storage.Source{1}, Shared: true}, c.Elapsed()
}

// place is a folder with a database and what belongs to it.
type place string

func (p place) database() string { return filepath.Join(string(p), "tally.db") }
func (p place) secret() string   { return filepath.Join(string(p), "secret") }
func (p place) names() string    { return p.database() + "-names" }

// processes numbers the processes of this test, whose memory is their own.
var processes int

// begin starts a process with lines of a secret. It is called from one goroutine.
func (p place) begin(t *testing.T, lines ...string) *Instance {
	t.Helper()
	inst, err := p.open(lines...)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

func (p place) open(lines ...string) (*Instance, error) {
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&text, strings.Repeat(line, identity.MinSecret))
	}
	if err := os.WriteFile(p.secret(), []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	processes++
	inst := NewWith(Settings{Store: string(p), Counts: fmt.Sprint(p, processes), Kind: "file", Path: p.database(), Secret: p.secret(),
		Epochs: filepath.Join(string(p), "tally.epochs"), Names: p.names(), Timeout: time.Minute, Cleanup: time.Minute},
		fileStore(p.database()), func(o *engine.Options) { o.Clock = virtualClock{time.Now()} })
	<-inst.Engine.Ready()
	return inst, nil
}

func end(t *testing.T, inst *Instance) {
	t.Helper()
	if err := inst.Destruct(); err != nil {
		t.Error(err)
	}
}

// acme is a key of an API key.
var acme = []byte{identity.TagAPIKey, 'a', 'c', 'm', 'e'}

// monthly is a quota of a month.
func monthly(t *testing.T, amount int64) *engine.Limit {
	t.Helper()
	l, err := limiter.New(limiter.Params{Algorithm: limiter.Fixed, Amount: amount, Window: limiter.Month})
	if err != nil {
		t.Fatal(err)
	}
	return &engine.Limit{ID: 7, Rate: l}
}

// use sends requests with the key, and counts them as a handler does. It returns how many passed.
func use(inst *Instance, limit *engine.Limit, n int) (passed int) {
	meter := inst.ledger.Meter(billed)
	for range n {
		if inst.Engine.Decide(context.Background(), nil, []engine.Debit{{Limit: limit, Key: acme, Cost: 1}}).Allowed {
			meter.Allow(inst.ledger.Key(acme), 1)
			passed++
		}
	}
	return passed
}

var billed = storage.Series{Zone: "api", Limit: "monthly"}

// invoiceOf returns the units of a month.
func invoiceOf(t *testing.T, inst *Instance, year int, month time.Month) (units int64) {
	t.Helper()
	past, err := inst.Past()
	if err != nil {
		t.Fatal(err)
	}
	names, err := inst.Names.InHistory(billed, string(acme))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	points, err := past.History(t.Context(), storage.HistoryQuery{Series: history.Of(billed, names[0]),
		From: begin.UnixNano(), To: begin.AddDate(0, 1, 0).UnixNano(), Resolution: storage.Day})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		units += p.Units
	}
	return units
}

// The secret of one machine is replaced in three steps, with an update of the program before and the border of
// a month among them: invoices and quotas of both months have everything.
func TestRotationKeepsInvoicesAndQuotas(t *testing.T) {
	steps := [][]string{{"a"}, {"a", "b"}, {"b", "a"}, {"b"}}
	for border := range steps {
		t.Run(fmt.Sprint("before step ", border), func(t *testing.T) {
			p := place(t.TempDir())
			bubble.Test(t, func(t *testing.T) {
				quota := monthly(t, 10)
				time.Sleep(30*24*time.Hour + 20*time.Hour) // it is January 31
				sent, month := map[time.Month]int{}, time.January
				for step, lines := range steps {
					if step == border {
						time.Sleep(5 * time.Hour)
						month = time.February
					}
					inst := p.begin(t, lines...)
					if passed := use(inst, quota, 2); passed != 2 {
						t.Errorf("step %v: %d of 2 passed", lines, passed)
					}
					sent[month] += 2
					if step == len(steps)-1 {
						passed := use(inst, quota, 10)
						sent[month] += passed
						if sent[month] != 10 {
							t.Errorf("%d of a quota of 10 passed in the last month", sent[month])
						}
					}
					end(t, inst)
					if step == 0 { // versions before had no file
						if err := os.Remove(p.names()); err != nil {
							t.Fatal(err)
						}
					}
				}
				inst := p.begin(t, "b")
				defer end(t, inst)
				for month, want := range sent {
					if got := invoiceOf(t, inst, 2000, month); got != int64(want) {
						t.Errorf("the invoice of %v has %d units, want %d", month, got, want)
					}
				}
				if d := inst.describe(); d.Names != nil || d.Degraded {
					t.Errorf("health is %+v, %+v", d, d.Names)
				}
			})
		})
	}
}

// Processes that start at once on a new database, with the lines of a secret in any order, agree.
func TestProcessesAgreeOnOneKey(t *testing.T) {
	p := place(t.TempDir())
	var all []*Instance
	for i := range 4 {
		all = append(all, p.begin(t, [][]string{{"a", "b"}, {"b", "a"}}[i%2]...))
	}
	var wg sync.WaitGroup
	for _, inst := range all {
		wg.Go(func() { _ = inst.Names.keep() })
	}
	wg.Wait()
	for _, inst := range all {
		if got, want := inst.Names.Tag(string(acme)), all[0].Names.Tag(string(acme)); got != want || got == "" {
			t.Errorf("one names a client %q, another %q", got, want)
		}
		if d := inst.describe(); d.Degraded || d.Names != nil {
			t.Errorf("health is %+v, %+v", d, d.Names)
		}
	}
	for _, inst := range all {
		end(t, inst)
	}
}

// keyIn returns the key of names of a process.
func keyIn(inst *Instance) []byte {
	agreed := inst.Names.agreed.Load()
	if agreed == nil {
		return nil
	}
	return agreed.key
}

// Whatever happens to the file, a key that can be known is not replaced by another, and one that can't be is
// not replaced without a word; what is there stays.
func TestFileOfTheKeyOfNames(t *testing.T) {
	const (
		sound  = iota // the same key, and nothing is wrong
		told          // the same key, with a word
		anew          // another key, with a word
		unused        // the database isn't used
	)
	write := func(text string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	truncate := func(n int64) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			t.Helper()
			if err := os.Truncate(path, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	link := func(t *testing.T, path string) {
		t.Helper()
		if err := errors.Join(os.Rename(path, path+"-elsewhere"), os.Symlink(path+"-elsewhere", path)); err != nil {
			t.Fatal(err)
		}
	}
	dangling := func(t *testing.T, path string) {
		t.Helper()
		if err := errors.Join(os.Remove(path), os.Symlink(path+"-gone", path)); err != nil {
			t.Fatal(err)
		}
	}
	folder := func(t *testing.T, path string) {
		t.Helper()
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		lines []string // at the next start; the key is that of a, sealed under b
		want  int
		says  string
	}{
		{"untouched", func(*testing.T, string) {}, []string{"b"}, sound, ""},
		{"removed, and a line is it", remove, []string{"b", "a"}, sound, ""},
		{"removed", remove, []string{"b"}, anew, "put back the former file"},
		{"emptied, and a line is it", truncate(0), []string{"b", "a"}, sound, ""},
		{"emptied", truncate(0), []string{"b"}, anew, "put back the former file"},
		{"torn, and a line is it", truncate(30), []string{"b", "a"}, told, "no line of secret_file opened the file"},
		{"torn", truncate(30), []string{"b"}, anew, "no line of secret_file opened the file"},
		{"one byte less", truncate(59), []string{"b"}, anew, "no line of secret_file opened the file"},
		{"foreign", write("somebody else's\n"), []string{"b"}, anew, "no line of secret_file opened the file"},
		{"foreign and large, and a line is it", write(strings.Repeat("x", 5000)), []string{"b", "a"}, told, "is not a file of at most"},
		{"foreign and large", write(strings.Repeat("x", 5000)), []string{"b"}, unused, "is not a file of at most"},
		{"another secret", func(*testing.T, string) {}, []string{"c"}, anew, "add the former line of secret_file behind the first, and move it back"},
		{"the line before", func(*testing.T, string) {}, []string{"a"}, told, "move it back"},
		{"linked, and a line is it", link, []string{"b", "a"}, told, "put the file itself there"},
		{"linked", link, []string{"b"}, unused, "put the file itself there"},
		{"linked to nothing", dangling, []string{"b"}, unused, "put the file itself there"},
		{"a folder", folder, []string{"b"}, unused, "put the file itself there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := place(t.TempDir())
			first := p.begin(t, "a")
			key := keyIn(first)
			end(t, first)
			end(t, p.begin(t, "b", "a"))
			c.spoil(t, p.names())
			before, _ := os.ReadFile(p.names())

			inst := p.begin(t, c.lines...)
			d := inst.describe()
			reason := d.Reason
			if d.Names != nil {
				reason += d.Names.Reason
			}
			got := keyIn(inst)
			switch {
			case d.Degraded != (c.want == unused):
				t.Errorf("degraded: %t, %s", d.Degraded, d.Reason)
			case (c.want == sound || c.want == told) != bytes.Equal(got, key):
				t.Errorf("the same key: %t", bytes.Equal(got, key))
			case (reason == "") != (c.want == sound) || !strings.Contains(reason, c.says):
				t.Errorf("says %q, want %q", reason, c.says)
			}
			end(t, inst)
			kept := slices.ContainsFunc(filesOf(t, string(p)), func(path string) bool {
				text, err := os.ReadFile(path)
				return err == nil && bytes.Equal(text, before)
			})
			if len(before) > 0 && !kept && c.want != sound {
				t.Error("what was in the file is lost")
			}
		})
	}
}

func filesOf(t *testing.T, folder string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// After a start under an unknown secret, everything comes back with the former line and the file that was set
// aside. Health tells of that file at each start until it is moved or deleted, and many starts keep few.
func TestKeyThatWasSetAsideComesBack(t *testing.T) {
	p, quota := place(t.TempDir()), monthly(t, 5)
	inst := p.begin(t, "a")
	if passed := use(inst, quota, 4); passed != 4 {
		t.Errorf("%d of 4 passed", passed)
	}
	key := keyIn(inst)
	end(t, inst)
	for range 2 {
		inst = p.begin(t, "b")
		if d := inst.describe(); d.Degraded || d.Names == nil || !strings.Contains(d.Names.Reason, ".aside-") {
			t.Errorf("health is %+v, %+v", d, d.Names)
		}
		end(t, inst)
	}
	asides, err := filepath.Glob(p.names() + ".aside-*")
	if err != nil || len(asides) != 1 {
		t.Fatalf("set aside: %q, %v", asides, err)
	}
	if err := os.Rename(asides[0], p.names()); err != nil {
		t.Fatal(err)
	}
	inst = p.begin(t, "b", "a")
	if !bytes.Equal(keyIn(inst), key) {
		t.Error("another key is in use")
	}
	if d := inst.describe(); d.Names == nil || !strings.Contains(d.Names.Reason, "last used under another key") || strings.Contains(d.Names.Reason, "anew") {
		t.Errorf("health is %+v", d.Names)
	}
	if passed := use(inst, quota, 4); passed != 1 {
		t.Errorf("%d requests passed, want the last of the quota", passed)
	}
	end(t, inst)
	inst = p.begin(t, "b")
	if d := inst.describe(); d.Degraded || d.Names != nil {
		t.Errorf("health is %+v, %+v", d, d.Names)
	}
	end(t, inst)
	for i := range 10 {
		end(t, p.begin(t, fmt.Sprint(i)))
	}
	if asides, err := filepath.Glob(p.names() + ".aside-*"); err != nil || len(asides) != 4 {
		t.Errorf("after ten secrets there are %d files, %v", len(asides), err)
	}
}

// While the file can't be written, the process goes on, says so, and writes it as soon as it can.
func TestKeyOfNamesIsKeptLater(t *testing.T) {
	p := place(t.TempDir())
	if err := os.Mkdir(p.names()+".lock", 0o700); err != nil { // as on a full disk, the file can't be written
		t.Fatal(err)
	}
	inst := p.begin(t, "a")
	defer end(t, inst)
	if d := inst.describe(); d.Degraded || d.Names == nil || !strings.Contains(d.Names.Reason, "don't remove or change lines") {
		t.Errorf("health is %+v, %+v", d, d.Names)
	}
	if err := os.Remove(p.names() + ".lock"); err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []func() error{
		func() error { return nil },
		func() error { return os.Remove(p.names()) },
		func() error { return os.Truncate(p.names(), 0) },
	} {
		if err := errors.Join(spoil(), inst.Names.keep()); err != nil {
			t.Error(err)
		}
		info, err := os.Stat(p.names())
		if d := inst.describe(); d.Names != nil || err != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 {
			t.Errorf("health is %+v; the file is %v, %v", d.Names, info, err)
		}
	}
}

// The use of API keys waits in memory until it is known what their names are made with: the names of a line
// of the secret would be others.
func TestUseIsNamedWhenTheKeyIsKnown(t *testing.T) {
	p := place(t.TempDir())
	end(t, p.begin(t, "a"))
	if err := errors.Join(os.Rename(p.names(), p.names()+"-elsewhere"), os.Symlink(p.names()+"-elsewhere", p.names())); err != nil {
		t.Fatal(err)
	}
	inst := p.begin(t, "b")
	defer end(t, inst)
	if _, err := inst.Names.InHistory(billed, string(acme)); !errors.Is(err, errNoSecret) {
		t.Errorf("an API key is named before the key is known: %v", err)
	}
}

// A copy of the database has no key of names, and tells nobody whose its rows are, not even with the secret
// that is in use after a rotation.
func TestDatabaseAloneRevealsNoName(t *testing.T) {
	p, quota := place(t.TempDir()), monthly(t, 10)
	inst := p.begin(t, "a")
	use(inst, quota, 3)
	key := keyIn(inst)
	end(t, inst)
	end(t, p.begin(t, "b", "a"))
	inst = p.begin(t, "b")
	use(inst, quota, 3)
	lines := inst.Names.Secret.Load().Keys()
	end(t, inst)
	copied := place(t.TempDir())
	text, err := os.ReadFile(p.database())
	if err == nil {
		err = os.WriteFile(copied.database(), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for what, secret := range map[string][]byte{"the key": key, "the new line's key": lines[0], "the client": acme} {
		if bytes.Contains(text, secret) {
			t.Errorf("the database has %s", what)
		}
	}
	inst = copied.begin(t, "b")
	if passed := use(inst, quota, 10); passed != 10 {
		t.Errorf("%d of 10 passed: the copy knows the client", passed)
	}
	end(t, inst)
}

// A secret file that doesn't open the key of names is noticed at a reload, before the next start does.
func TestSecretThatWouldLoseTheKeyIsNoticed(t *testing.T) {
	p := place(t.TempDir())
	inst := p.begin(t, "a")
	defer end(t, inst)
	for line, says := range map[string]string{"b": "counts by key and the use of API keys would begin anew", "c\na": "restart Caddy to use it"} {
		var text strings.Builder
		for line := range strings.Lines(line) {
			fmt.Fprintln(&text, strings.Repeat(strings.TrimSpace(line), identity.MinSecret))
		}
		if err := os.WriteFile(p.secret(), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		core, logs := observing.New(zap.WarnLevel)
		inst.Names.CheckSecret(zap.New(core))
		if all := logs.All(); len(all) != 1 || !strings.Contains(all[0].Message, says) {
			t.Errorf("of %q the log says %v, want %q", line, all, says)
		}
	}
}
