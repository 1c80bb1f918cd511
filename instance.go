package tally

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/identity/atrest"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/identity/pressure"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// instances holds the engines in use, by the settings they were started with. They outlive
// configurations: a reload that doesn't change the settings keeps the engine.
var instances = caddy.NewUsagePool()

// instance is an engine in use, with what it needs of the root package.
type instance struct {
	settings settings
	engine   *engine.Engine
	begun    time.Time
	made     chan struct{} // closed when there is an engine
	closing  atomic.Bool   // the engine is about to close its store
	secret   atomic.Pointer[identity.Secret]
	epochs   *epoch.Keys
	pressure *pressure.Tracker
	keys     atomic.Pointer[apikeys.File] // of the configuration that runs; nil if it has none

	mu   sync.Mutex
	logs map[string]*refusalLog // guarded by mu: by name of the zone
}

// settings are what an instance is made from. Equal settings share an instance.
type settings struct {
	store    string // what the store is identified by
	kind     string // the name of its module
	path     string // where it is; "" if it has no files
	secret   string // the file; "" if the store has it
	epochs   string // the folder; "" if the store has them
	maxKeys  int
	timeout  time.Duration
	cleanup  time.Duration
	degraded int
}

// where returns the field of a log line that says which store it is about.
func (s settings) where() zap.Field {
	if s.path == "" {
		return zap.String("store", s.kind)
	}
	return zap.String("path", s.path)
}

// newInstance starts an engine. It touches no file itself: the engine opens the
// store in the background.
func newInstance(s settings, in Store) (*instance, error) {
	h := &instance{settings: s, begun: time.Now(), epochs: epoch.In(s.epochs), logs: make(map[string]*refusalLog), pressure: pressure.New(0), made: make(chan struct{})}
	if keyed, ok := in.(keyedStore); ok {
		h.takeKeys(keyed)
	}
	var err error
	h.engine, err = engine.New(engine.Options{
		Open: func(ctx context.Context) (storage.Store, error) {
			if err := h.openSecret(s.secret); err != nil {
				return nil, withRemedy(err)
			}
			store, err := in.Open(ctx, s.timeout)
			return store, withRemedy(err)
		},
		Name:            h.name,
		MaxKeys:         s.maxKeys,
		StoreTimeout:    s.timeout,
		CleanupInterval: s.cleanup,
		DegradedPercent: s.degraded,
		Observer:        h,
	})
	close(h.made)
	return h, err
}

// lasting returns the time that keys of epochs go by, and what else must not be
// lost when the clock on the wall is set: that of the store, as if it had never been
// set.
func (h *instance) lasting() time.Time {
	<-h.made // the engine has begun to work before it is known here
	now, _ := h.engine.Lasting()
	return time.Unix(0, now)
}

// sweepEpochs destroys keys of the past, unless it isn't known yet which these are.
func (h *instance) sweepEpochs() error {
	<-h.made
	now, told := h.engine.Lasting()
	if !told {
		return nil
	}
	return h.epochs.Sweep(time.Unix(0, now))
}

// takeKeys uses the keys that a store has. A secret that an option names comes
// first.
func (h *instance) takeKeys(store keyedStore) {
	secret, epochs := store.keys()
	h.epochs = epochs
	if h.settings.secret == "" {
		h.secret.Store(secret)
	}
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

// openSecret reads the secret, once: names must not change under a running
// engine. If the files with the keys that names are made under were removed since,
// as they are with their folder, they are made again: nobody else would find what
// is counted. The file that an option names is the operator's.
func (h *instance) openSecret(path string) error {
	if secret := h.secret.Load(); secret != nil {
		if h.settings.epochs != "" && filepath.Dir(path) == filepath.Dir(h.settings.epochs) {
			return errors.Join(secret.Keep(path), h.epochs.Keep(h.lasting()))
		}
		return h.epochs.Keep(h.lasting())
	}
	h.keepKeysOfOthers()
	secret, err := identity.OpenSecret(path)
	if err != nil {
		return err
	}
	h.secret.Store(secret)
	return nil
}

// awaitSecret returns the secret, or nil if it can't be had. It waits for it up to
// readyTimeout after the instance was made: a disk that hangs holds up no request
// that comes later.
func (h *instance) awaitSecret(ctx context.Context) *identity.Secret {
	if secret := h.secret.Load(); secret != nil {
		return secret
	}
	if left := readyTimeout - time.Since(h.begun); left > 0 {
		select {
		case <-h.engine.Ready():
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
	return h.secret.Load()
}

// name implements engine.Options.Name.
func (h *instance) name(id storage.LimitID, key string, retention time.Duration, now int64) (engine.Name, error) {
	hash, err := atrest.HashKey(h.secret.Load(), h.epochs, uint64(id), key, retention+limiter.MaxSkew, time.Unix(0, now))
	return engine.Name{Key: hash.Current, Former: hash.Former, From: hash.From, Until: hash.Until}, withRemedy(err)
}

// opaqueName returns an opaque name of a client.
func (h *instance) opaqueName(key []byte, verified bool) (name [16]byte, ok bool) {
	if !verified {
		name, err := atrest.OpaqueToday(h.epochs, key, h.lasting())
		return name, err == nil
	}
	secret := h.secret.Load()
	if secret == nil {
		return name, false
	}
	return atrest.Opaque(secret, key), true
}

// flushTimeout is how long a clean stop may take to give back what is unspent.
const flushTimeout = 10 * time.Second

// Destruct implements caddy.Destructor.
func (h *instance) Destruct() error {
	h.closing.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	err := h.engine.Close(ctx)
	h.summarize()
	if err != nil {
		return fmt.Errorf("rate_limit: %w", err)
	}
	return nil
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
		l.summarize(logger())
	}
}

// statsTimeout bounds how long somebody who asks how a store is waits for it.
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

// logger returns the logger for what concerns no single configuration.
func logger() *zap.Logger { return caddy.Log().Named("rate_limit") }

// Committed implements engine.Observer.
func (h *instance) Committed(claims int, took time.Duration) {
	metrics.batch.Observe(float64(claims))
	metrics.latency.Observe(took.Seconds())
	metrics.claims.Add(float64(claims))
}

// Swept implements engine.Observer.
func (h *instance) Swept(rows int64, keys int, err error) {
	err = errors.Join(err, h.keepKeys(), h.sweepEpochs())
	metrics.swept.Add(float64(rows))
	metrics.idle.Add(float64(keys))
	if err != nil {
		logger().Error("expired rows could not be removed; it is tried again at the next cleanup", zap.Error(err))
	} else if rows > 0 || keys > 0 {
		logger().Debug("cleaned up", zap.Int64("rows", rows), zap.Int("idle_keys", keys))
	}
	h.pressure.Sweep(h.lasting())
	h.summarize()
}

// Punished implements engine.Observer.
func (h *instance) Punished(reason reputation.Reason) {
	if reason != reputation.Crowded && reason != reputation.Inherited { // which are no violations
		metrics.violations.WithLabelValues(reason.String()).Inc()
	}
}

// Banned implements engine.Observer.
func (h *instance) Banned(reason reputation.Reason) {
	if reason == reputation.Crowded {
		metrics.squeezes.Inc()
	} else {
		metrics.bans.Inc()
	}
}

// Degraded implements engine.Observer.
func (h *instance) Degraded(since time.Duration, err error) {
	if since == 0 {
		metrics.degraded.Inc()
	}
	logger().Error("the store can't be used; reduced limits are kept in memory until it can",
		h.settings.where(), zap.Duration("since", since), zap.Error(err))
}

// Recovered implements engine.Observer.
func (h *instance) Recovered(after time.Duration) {
	logger().Info("the store is in use again", h.settings.where(), zap.Duration("after", after))
}

var _ engine.Observer = (*instance)(nil)
