// Package instance has the state that outlives a config: the engine on a store, the keys for names
// at rest, the history, the audit, operators' rules in the store, and the exchange with other
// regions. Configs with the same counts share an [Instance], which has one owner and one end:
// [Acquire] and [Release]. The config that started last determines its options: [Instance.Change].
package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/identity/pressure"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/regions"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/storage"
)

// instances holds the engines in use, by their counts. They outlive configurations: a reload that
// changes options changes those of the engine, which keeps its memory.
var instances = caddy.NewUsagePool()

// ReadyTimeout is how long a start waits for the store to open, so that the first requests need not
// wait.
const ReadyTimeout = 5 * time.Second

// flushTimeout is how long a clean stop may take to give back unspent units.
const flushTimeout = 10 * time.Second

// Instance is an engine with the other state that outlives a config. It may be used from any number
// of goroutines.
type Instance struct {
	Settings Settings // at the start; see InForce
	Engine   *engine.Engine
	Store    atomic.Pointer[storage.Store]   // the store that the engine opened last; it may be closed
	network  atomic.Pointer[storage.Network] // the same, if it is on a network; or nil
	Names    Names
	Audit    Audit
	Shared   SharedRules // operators' rules in a shared store
	Pressure *pressure.Tracker
	Recent   RecentByReference
	quotas   quotas

	changing sync.Mutex               // held while options change
	InForce  atomic.Pointer[Settings] // written under changing

	Closing atomic.Bool  // the engine is about to close its store
	Starts  atomic.Int32 // number of configs so far

	// Of the running config; nil if it has none.
	Keys  atomic.Pointer[apikeys.File]
	Rules atomic.Pointer[rules.File]
	kinds atomic.Pointer[map[ZoneTier]LimitKinds]
	// Listener is called with what may interest an operator. It must not block.
	Listener atomic.Pointer[func(notify.Event)]

	begun       time.Time
	made        chan struct{}                        // closed when there is an engine
	ledger      *history.Ledger                      // counts for the history
	reporter    *history.Reporter                    // writes the history
	unwritten   atomic.Pointer[operator.FileTrouble] // why it can't be written; nil if it can
	regions     atomic.Pointer[regions.Regions]      // shares counts with other regions; nil if there are none
	exchangedAt atomic.Value                         // the place of the exchange, a string

	mu   sync.Mutex
	logs map[string]*RefusalLog // guarded by mu: by the zone's name

	Bans singleflight.Group // readings of the bans in the store, so that those of a disk that hangs are one

	away atomic.Bool // the listener was told that the store can't be used
}

// Acquire returns the instance for the counts of some settings. It starts one with these settings if
// there is none. [Release] gives it up.
func Acquire(s Settings, in stores.Store, region *Region) *Instance {
	value, _, _ := instances.LoadOrNew(s.counted(), func() (caddy.Destructor, error) { // returns no error
		inst := New(s, in)
		inst.startRegion(s, region)
		return inst, nil
	})
	return value.(*Instance)
}

// Release gives up the instance for some settings. If nothing else uses it, it is closed, which
// gives back unspent units.
func Release(s Settings) error {
	_, err := instances.Delete(s.counted())
	return err
}

// IsInUse reports whether there is an instance for some settings.
func IsInUse(s Settings) bool {
	_, used := instances.References(s.counted())
	return used
}

// Settings are what an instance is started with. Those with the same counts share one.
type Settings struct {
	Store    string // identifies the counts and how the store is used
	Counts   string // identifies the counts
	Kind     string // the name of its module
	Path     string // its path; "" if it has no files
	Address  string // the address of a shared server; "" if there is none
	Secret   string // the secret file; "" if the store has the secret
	Epochs   string // the folder of epochs; "" if the store has them
	Names    string // the file of the key of names; "" if the store has it
	MaxKeys  int
	Timeout  time.Duration
	Cleanup  time.Duration
	Degraded int
	Region   string // identifies the sharing of counts with other regions; "" without
}

// counted has the settings that identify the counts, and the names that they have at rest.
func (s Settings) counted() Settings {
	return Settings{Kind: s.Kind, Counts: s.Counts, Secret: s.Secret, Epochs: s.Epochs}
}

// where returns the log field that identifies the store.
func (s Settings) where() zap.Field {
	switch {
	case s.Path != "":
		return zap.String("path", s.Path)
	case s.Address != "":
		return zap.String("store", s.Kind+" "+s.Address)
	}
	return zap.String("store", s.Kind)
}

// Lasting returns the store's time, which advances evenly when the clock is set. The keys of epochs
// use it, so that setting the clock loses no counts.
func (inst *Instance) Lasting() time.Time {
	<-inst.made // the engine starts working before inst.Engine is set
	now, _ := inst.Engine.Lasting()
	return time.Unix(0, now)
}

// WithRemedy adds a remedy to an error of the file system.
func WithRemedy(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; make the user that Caddy runs as the owner of that folder and of the files in it", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w; name a path on a disk that can be written to", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; make room there, or name a path on another disk", err)
	}
	return err
}

// Log returns the log of a zone's refusals.
func (inst *Instance) Log(zone string) *RefusalLog {
	inst.mu.Lock()
	defer inst.mu.Unlock()
	l := inst.logs[zone]
	if l == nil {
		l = &RefusalLog{Zone: zone}
		inst.logs[zone] = l
	}
	return l
}

func (inst *Instance) summarize() {
	for _, e := range inst.summaries(time.Now()) {
		inst.notify(e)
	}
}

// summaries logs summaries of the zones, and returns the events of those that begin or end to refuse unusually much.
func (inst *Instance) summaries(now time.Time) (unusual []notify.Event) {
	inst.mu.Lock()
	defer inst.mu.Unlock()
	for _, l := range inst.logs {
		perMinute, kind := l.observe(l.summarize(caddyconf.Logger()), now)
		if kind == "" {
			continue
		}
		text := "The zone %s refuses %s requests a minute, far more than in the last hour."
		if kind == notify.Calm {
			text = "The zone %s no longer refuses unusually much: %s requests a minute."
		}
		unusual = append(unusual, notify.Event{Kind: kind, Zone: l.Zone, Count: perMinute,
			Text: fmt.Sprintf(text, l.Zone, wording.Number(perMinute))})
	}
	return unusual
}

// notify passes an event to the listener of the running config. It may be called from any goroutine,
// and doesn't block.
func (inst *Instance) notify(e notify.Event) {
	if listener := inst.Listener.Load(); listener != nil {
		e.Time = time.Now().UTC()
		(*listener)(e)
	}
}

// StatsTimeout bounds how long a query of a store's state may take.
const StatsTimeout = time.Second

func (inst *Instance) Stats() engine.Stats {
	ctx, cancel := context.WithTimeout(context.Background(), StatsTimeout)
	defer cancel()
	return inst.Engine.Stats(ctx)
}

// Each calls f for every instance. f may be slow: the pool, which a reload waits for, is not locked
// meanwhile.
func Each(f func(*Instance)) {
	var all []*Instance
	instances.Range(func(_, value any) bool {
		if inst, ok := value.(*Instance); ok {
			all = append(all, inst)
		}
		return true
	})
	for _, inst := range all {
		f(inst)
	}
}

// IsNew reports whether a client that memory refuses may be new to its network. It takes no lock.
func (inst *Instance) IsNew(network engine.Client, key []byte) bool {
	if record := inst.Engine.CachedRecord(network); record != nil && record.Banned(inst.Engine.Now()) {
		return false // it is throttled already
	}
	return inst.Pressure.IsNew(inst.Lasting(), key)
}
