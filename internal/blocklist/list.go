package blocklist

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/rules"
)

// Options configure a [List].
type Options struct {
	Source string        // a path, or the URL of a list
	Every  time.Duration // how often it is read again
	Ban    time.Duration // how long a ban lasts after the list was last read; 0 for no end
	Folder string        // where lists of URLs are kept
}

// IsURL reports whether a source is a URL.
func IsURL(source string) bool { return strings.Contains(source, "://") }

// name returns the name of the list for people, without what may be secret in a URL.
func (o Options) name() string {
	if at, err := url.Parse(o.Source); IsURL(o.Source) && err == nil {
		return at.Host
	}
	return filepath.Base(o.Source)
}

// cache returns the file in which the list of a URL is kept.
func (o Options) cache() string {
	return filepath.Join(o.Folder, fmt.Sprintf("%.16x", sha256.Sum256([]byte(o.Source))))
}

// List is a list of addresses that are banned. Its exported methods may be called from any number
// of goroutines.
type List struct {
	options Options
	client  http.Client
	log     *zap.Logger

	bans  atomic.Pointer[version] // in force; nil for none
	state atomic.Pointer[State]   // of the last reading; nil until then
	once  sync.Once               // starts the goroutine
	ctx   context.Context         // ends it
	end   context.CancelFunc
	done  sync.WaitGroup // for the goroutine to end

	// The rest belongs to the goroutine once there is one.
	shrunken *set        // a version with few entries, which the next fetch must confirm
	seen     fs.FileInfo // the file as it was last read
	header   http.Header // of the answer with the version in force; nil if that isn't known
	next     time.Time   // when to read the source again
	failures int         // since it was last read
}

// lists are those in use, by their options.
var lists = caddy.NewUsagePool()

// Acquire returns the list with some options, with its last good version in force. It fetches and
// writes nothing: see [List.Run]. [List.Release] gives it up. A file that is no list is an error,
// unless without is set: then the list bans nobody until the file is right.
func Acquire(o Options, without bool) (*List, error) {
	value, _, _ := lists.LoadOrNew(o, func() (caddy.Destructor, error) { return open(o), nil }) // returns no error
	l := value.(*List)
	err := l.broken()
	if err == nil {
		return l, nil
	}
	if !without {
		l.Release()
		return nil, err
	}
	l.log.Error("the block list can't be used; Caddy starts without it, and reads it again until it can",
		zap.Error(err))
	return l, nil
}

// Release gives up the list. When all have who acquired it, it is read no more.
func (l *List) Release() { _, _ = lists.Delete(l.options) } // returns no error

// broken returns why the file of the list is none although nothing is in force, or nil. The file may
// have changed since it was last read.
func (l *List) broken() error {
	if IsURL(l.options.Source) || l.bans.Load() != nil || l.State().Err == nil {
		return nil
	}
	_, _, err := read(l.options.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// open reads the file of the list, which need not exist yet, or what is kept of a URL. A kept version
// that can't be read is fetched again.
func open(o Options) *List {
	l := &List{options: o, log: caddyconf.Logger().With(zap.String("list", o.name()))}
	l.client.CheckRedirect = checkRedirect
	l.ctx, l.end = context.WithCancel(context.Background())
	if IsURL(o.Source) {
		if l.readFile(o.cache()) == nil {
			l.next = l.seen.ModTime().Add(o.Every)
		}
		return l
	}
	// which is logged when it is read again
	if err := l.readFile(o.Source); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.state.Store(&State{Err: err})
		l.failures++
	}
	return l
}

// version is a version of a list in force.
type version struct {
	*set
	until time.Time // the end of its bans; the zero time: none
}

// isOver reports whether its bans have ended.
func (v *version) isOver(now time.Time) bool {
	return !v.until.IsZero() && now.Unix() >= v.until.Unix()
}

// Ban returns the ban of an address at a time, if there is one.
func (l *List) Ban(addr netip.Addr, now time.Time) (ban rules.Rule, found bool) {
	v := l.bans.Load()
	if v == nil || v.isOver(now) {
		return ban, false
	}
	network, found := v.find(addr.Unmap().WithZone(""))
	if found {
		ban = rules.Rule{Action: rules.Ban, Target: rules.NetworkOf(network), Until: v.until,
			Reason: "block list " + l.options.name()}
	}
	return ban, found
}

// InForce returns how many entries are in force at a time.
func (l *List) InForce(now time.Time) int {
	v := l.bans.Load()
	if v == nil || v.isOver(now) {
		return 0
	}
	return v.entries
}

// Run begins to read the list again on its schedule.
func (l *List) Run() { l.once.Do(func() { l.done.Go(l.loop) }) }

// Destruct implements caddy.Destructor. It ends the schedule, and waits for that.
func (l *List) Destruct() error {
	l.end()
	l.done.Wait()
	return nil
}

// State tells operators how a list is.
type State struct {
	Name string    // without what may be secret
	Bans int       // in force
	Read time.Time // when the source was last found to be good; zero if it hasn't been since the start
	Err  error     // why it isn't now; or nil
}

// State returns the state of the list.
func (l *List) State() State {
	now := State{Name: l.options.name(), Bans: l.InForce(time.Now())}
	if s := l.state.Load(); s != nil {
		now.Read, now.Err = s.Read, s.Err
	}
	return now
}

// loop reads the list again whenever it is time.
func (l *List) loop() {
	for {
		select {
		case <-time.After(time.Until(l.next)):
			l.refresh()
		case <-l.ctx.Done():
			return
		}
	}
}

// minRetry is how long after a failure the list is read again; each further failure doubles it.
const minRetry = 30 * time.Second

// refresh reads the list again, and decides when to do so next.
func (l *List) refresh() {
	read, wait := func() error { return l.readFile(l.options.Source) }, l.options.Every
	if IsURL(l.options.Source) {
		read = l.fetch
	}
	err := read()
	state := State{Read: time.Now(), Err: err}
	if err != nil {
		state.Read = l.State().Read
	}
	l.state.Store(&state)
	switch {
	case err != nil:
		if _, shrunk := errors.AsType[shrunkError](err); !shrunk {
			wait = min(wait, minRetry<<min(l.failures, 10))
		}
		if l.failures++; l.failures == 1 && l.ctx.Err() == nil {
			l.log.Warn("reading the block list failed; its previous version stays in force", zap.Error(err))
		}
	case l.failures > 0:
		l.log.Info("the block list can be read again", zap.Int("failures", l.failures))
		l.failures = 0
	}
	l.next = time.Now().Add(wait - wait/10 + rand.N(wait/5+1)) // so that not all the world asks at once
}

// take puts a parsed text of some time into force.
func (l *List) take(p parsed, at time.Time) {
	if p.broken > 0 {
		l.log.Warn("some lines of the block list are no addresses; the others are in force", zap.Int("lines", p.broken),
			zap.Error(p.first))
	}
	l.log.Info("the block list was read", zap.Int("bans", p.bans.entries), zap.Int("private_or_too_wide", p.skipped))
	l.enforce(p.bans, at)
}

// renew makes the bans of an unchanged list last longer.
func (l *List) renew() {
	if v := l.bans.Load(); v != nil && l.options.Ban > 0 {
		l.enforce(v.set, time.Now())
	}
}

// enforce puts the bans of a set into force, from a time on.
func (l *List) enforce(bans *set, at time.Time) {
	v := &version{set: bans}
	if l.options.Ban > 0 {
		v.until = at.Add(l.options.Ban)
	}
	l.bans.Store(v)
}

// mostlyGone is the part of a list that may disappear at once.
const mostlyGone = 0.9

// shrunkError is the error about an answer with a small part of the list. Servers that fail send such
// answers, too.
type shrunkError struct{ from, to int }

// Error implements error.
func (e shrunkError) Error() string {
	return fmt.Sprintf(
		"has shrunk from %d entries to %d: that is in force once another fetch, after the interval of the list, agrees", e.from, e.to)
}

// confirm returns an error about a fetched set that lacks most of the one in force, unless the fetch
// before said much the same.
func (l *List) confirm(fetched *set) error {
	before := l.shrunken
	l.shrunken = nil
	v := l.bans.Load()
	if v == nil || float64(fetched.entries) >= (1-mostlyGone)*float64(v.entries) ||
		before != nil && before.agrees(fetched) {
		return nil
	}
	l.shrunken = fetched
	return shrunkError{v.entries, fetched.entries}
}
