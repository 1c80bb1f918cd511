package tally

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

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/identity/pressure"
	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/regions"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// instances holds the engines in use, by the settings they were started with. They outlive
// configurations: a reload that doesn't change the settings keeps the engine.
var instances = caddy.NewUsagePool()

// readyTimeout is how long a start waits for the store to be open, so that the
// first requests need not.
const readyTimeout = 5 * time.Second

// flushTimeout is how long a clean stop may take to give back what is unspent.
const flushTimeout = 10 * time.Second

// instance is an engine in use, with what it needs of the root package.
type instance struct {
	settings    settings
	engine      *engine.Engine
	begun       time.Time
	made        chan struct{} // closed when there is an engine
	closing     atomic.Bool   // the engine is about to close its store
	starts      atomic.Int32  // configurations that run with it, or ran
	secret      atomic.Pointer[identity.Secret]
	references  atomic.Pointer[reference.Sealer] // under the secret; nil until one is asked for
	recent      recentByReference
	epochs      *epoch.Keys
	agreed      atomic.Pointer[agreedKey]     // by the machines that share a store; nil if there are none
	store       atomic.Pointer[storage.Store] // that the engine opened last; it may be closed by now
	reporter    *history.Reporter             // writes the history
	pressure    *pressure.Tracker
	regions     atomic.Pointer[regions.Regions]         // shares counts with other regions; nil if there are none
	exchangedAt string                                  // where it does
	regionNames atomic.Pointer[identity.Hasher]         // names keys for them; nil until one is asked for
	keys        atomic.Pointer[apikeys.File]            // of the configuration that runs; nil if it has none
	rules       atomic.Pointer[rules.File]              // of the configuration that runs
	shared      sharedStatements                        // of operators, in a store that machines share
	kinds       atomic.Pointer[map[zoneTier]limitKinds] // of the configuration that runs

	mu   sync.Mutex
	logs map[string]*refusalLog // guarded by mu: by name of the zone
}

// acquire returns the instance of some settings, which is started if there is none. It must be given
// up with release.
func acquire(s settings, in stores.Store, region *sharedRegion) (*instance, error) {
	known := statementsOnStore(s)
	value, _, err := instances.LoadOrNew(s, func() (caddy.Destructor, error) {
		h, err := newInstance(s, in, known)
		if err == nil {
			err = h.startRegion(region)
		}
		return h, err
	})
	if err != nil {
		return nil, err
	}
	return value.(*instance), nil
}

// release gives up the instance of some settings. It is closed if nothing else uses it, and unspent
// units are given back.
func release(s settings) error {
	_, err := instances.Delete(s)
	return err
}

// isInUse reports whether there is an instance of some settings.
func isInUse(s settings) bool {
	_, used := instances.References(s)
	return used
}

// settings are what an instance is made from. Equal settings share an instance.
type settings struct {
	store    string // what the store is identified by
	kind     string // the name of its module
	path     string // where it is; "" if it has no files
	address  string // of the server that several machines share; "" if there is none
	secret   string // the file; "" if the store has it
	epochs   string // the folder; "" if the store has them
	maxKeys  int
	timeout  time.Duration
	cleanup  time.Duration
	degraded int
	region   string // how counts are shared with other regions; "" if they are not
}

// where returns the field of a log line that says which store it is about.
func (s settings) where() zap.Field {
	switch {
	case s.path != "":
		return zap.String("path", s.path)
	case s.address != "":
		return zap.String("store", s.kind+" "+s.address)
	}
	return zap.String("store", s.kind)
}

// lasting returns the store's time, which goes on evenly when somebody sets the clock. The
// keys of epochs go by it, so that setting the clock loses no counts.
func (h *instance) lasting() time.Time {
	<-h.made // the engine has begun to work before it is known here
	now, _ := h.engine.Lasting()
	return time.Unix(0, now)
}

// withRemedy adds to an error of the file system how to mend it.
func withRemedy(err error) error {
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

// log returns the log of a zone's refusals.
func (h *instance) log(zone string) *refusalLog {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.logs[zone]
	if l == nil {
		l = &refusalLog{zone: zone}
		h.logs[zone] = l
	}
	return l
}

func (h *instance) summarize() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.logs {
		l.summarize(caddyconf.Logger())
	}
}

// statsTimeout bounds how long a question about the state of a store may take.
const statsTimeout = time.Second

func (h *instance) stats() engine.Stats {
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	return h.engine.Stats(ctx)
}

// eachInstance calls f for every instance. f may take its time: the pool, which a
// reload waits for, is not locked meanwhile.
func eachInstance(f func(*instance)) {
	var all []*instance
	instances.Range(func(_, value any) bool {
		if h, ok := value.(*instance); ok {
			all = append(all, h)
		}
		return true
	})
	for _, h := range all {
		f(h)
	}
}

// sweepAt removes from a store what has expired at the time of the log.
func (h *instance) sweepAt(now int64) error {
	store := h.store.Load()
	if store == nil {
		return nil
	}
	for {
		swept, err := (*store).Sweep(context.Background(), now)
		if err != nil || !swept.More {
			return err
		}
	}
}

// isNew reports whether a client that is refused from memory may be new to its network. It
// takes no lock.
func (h *instance) isNew(network engine.Client, key []byte, rule pressure.Rule) bool {
	if record := h.engine.CachedRecord(network); record != nil && record.Banned(h.engine.Now()) {
		return false // it is squeezed already
	}
	return h.pressure.IsNew(h.lasting(), key, rule)
}
