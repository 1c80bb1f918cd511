//go:build unix

package sqlite

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// comerJob is the variable that makes the test binary a process of these tests. Its arguments are
// those of [comer].
const comerJob = "SQLITE_TEST_COMER"

const comerLoaders = 4 // goroutines of a comer that ask for requests

func TestMain(m *testing.M) {
	if os.Getenv(comerJob) == "" {
		proof.Overlap()
		os.Exit(m.Run())
	}
	if err := come(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// comer is a process with one or more engines on a database, which makes requests, and writes the
// admitted ones to a file.
type comer struct {
	path    string // of the database
	said    *os.File
	round   string // the prefix of its keys
	number  int64  // of this process
	timeout time.Duration
	keys    int // that an engine may hold
	cleanup time.Duration
	full    bool // each commit is synced
	plain   bool // without a journal
	small   bool // a journal of half a MiB
	limits  []*engine.Limit
	asked   atomic.Int64

	mu      sync.RWMutex
	engines []*engine.Engine // guarded by mu; one that is in use is not closed
}

// come runs a comer. It reads commands, one per line: open another engine, close the oldest, or
// check that all are alive. It answers each line with a line about the outcome. At the end of the
// input it closes its engines.
func come(args []string, in io.Reader, out io.Writer) (err error) {
	c := new(comer)
	flags := flag.NewFlagSet("comer", flag.ContinueOnError)
	flags.StringVar(&c.path, "db", "", "")
	file := flags.String("said", "", "")
	seed := flags.Uint64("seed", 0, "")
	flags.StringVar(&c.round, "round", "", "")
	flags.Int64Var(&c.number, "number", 0, "")
	flags.DurationVar(&c.timeout, "timeout", 0, "")
	flags.DurationVar(&c.cleanup, "cleanup", 0, "")
	flags.IntVar(&c.keys, "keys", 0, "")
	flags.BoolVar(&c.full, "full", false, "")
	flags.BoolVar(&c.plain, "plain", false, "")
	flags.BoolVar(&c.small, "small", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if c.limits, err = engineLimits(); err != nil {
		return err
	}
	if c.said, err = os.OpenFile(*file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if err := c.open(); err != nil {
		return err
	}
	stop := make(chan struct{})
	var loaders sync.WaitGroup
	for i := range uint64(comerLoaders) {
		loaders.Go(func() { c.load(rand.New(rand.NewPCG(*seed, i)), stop) })
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fmt.Fprintln(out, c.do(lines.Text()))
	}
	close(stop)
	loaders.Wait()
	for len(c.engines) > 0 {
		err = errors.Join(err, c.close())
	}
	return err
}

// do executes a command, and returns the outcome.
func (c *comer) do(line string) string {
	var err error
	switch line {
	case "open":
		err = c.open()
	case "close":
		err = c.close()
	case "alive":
		err = c.alive()
	default:
		err = errors.New("expected open, close or alive")
	}
	if err != nil {
		return line + ": " + err.Error()
	}
	return line
}

func (c *comer) open() error {
	options := Options{Path: c.path, NoJournal: c.plain, BusyTimeout: max(c.timeout, time.Second)} // as Caddy has it
	if c.full {
		options.Synchronous = Full
	}
	if c.small {
		options.journalSizes = smallJournal
	}
	e := engine.New(engine.Options{
		Open:            func(ctx context.Context) (storage.Store, error) { return Open(ctx, options) },
		Name:            hashedName,
		NameAtOnce:      hashedNameAtOnce,
		MaxKeys:         c.keys,
		StoreTimeout:    c.timeout,
		CleanupInterval: c.cleanup,
		Observer:        tellingOutages{},
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engines = append(c.engines, e)
	return nil
}

// tellingOutages reports why the store can't be used.
type tellingOutages struct{ quiet }

// Degraded implements engine.Observer.
func (tellingOutages) Degraded(since time.Duration, err error) {
	fmt.Fprintf(os.Stderr, "%v: without the store for %v: %v\n", time.Now().Format("05.000"), since, err)
}

// Recovered implements engine.Observer.
func (tellingOutages) Recovered(after time.Duration) {
	fmt.Fprintf(os.Stderr, "%v: with the store after %v\n", time.Now().Format("05.000"), after)
}

// quiet is an observer that reports nothing.
type quiet struct{}

func (quiet) Committed(int, time.Duration)            {}
func (quiet) Punished(reputation.Reason)              {}
func (quiet) Banned([]byte, reputation.Reason, int64) {}
func (quiet) Swept(int64, int, time.Duration, error)  {}
func (quiet) Outage()                                 {}
func (quiet) Degraded(time.Duration, error)           {}
func (quiet) Recovered(time.Duration)                 {}

// hashedName returns uniformly distributed names, even for similar keys.
func hashedName(_ storage.LimitID, key string, _ time.Duration, _ int64) (name engine.Name, err error) {
	sum := sha256.Sum256([]byte(key))
	copy(name.Key[:], sum[:])
	return name, nil
}

func hashedNameAtOnce(id storage.LimitID, key string, remembered time.Duration, now int64) (engine.Name, bool) {
	name, err := hashedName(id, key, remembered, now)
	return name, err == nil
}

// close closes the oldest engine, once it is unused.
func (c *comer) close() error {
	c.mu.Lock()
	e := c.engines[0]
	c.engines = c.engines[1:]
	c.mu.Unlock()
	return e.Close(context.Background())
}

// alive returns when each engine has decided, with its store, about a new key, which must be
// admitted.
func (c *comer) alive() error {
	c.mu.RLock()
	engines := c.engines
	c.mu.RUnlock()
	for i, e := range engines {
		for degraded := true; degraded; time.Sleep(time.Millisecond) {
			key := fmt.Sprintf("%s?%x.%x", c.round, c.number, c.asked.Add(1))
			d := e.Decide(context.Background(), nil, debitsOf(c.limits, errand{limits: []int{small}}, key, 1))
			if degraded = d.Degraded; !degraded && !d.Allowed {
				return fmt.Errorf("engine %d refuses a new key: %+v", i, d)
			}
		}
	}
	return nil
}

// load makes requests in bursts.
func (c *comer) load(rng *rand.Rand, stop <-chan struct{}) {
	most := 100 * time.Millisecond // between bursts
	if proof.IsOn() {
		most = 4 * time.Millisecond
	}
	for {
		for range rng.IntN(40) {
			c.ask(rng)
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rng.Int64N(int64(most)))):
		}
	}
}

// ask asks an engine for a request, and says if it is admitted.
func (c *comer) ask(rng *rand.Rand) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.engines) == 0 {
		return
	}
	e := c.engines[rng.IntN(len(c.engines))]
	s := said{errand: anErrand(rng)}
	kind := errands[s.errand]
	s.key, s.Cost = kind.key(rng, c.round, c.number<<32|c.asked.Add(1)), 1+rng.Int64N(kind.most)
	debits := debitsOf(c.limits, kind, s.key, s.Cost)
	s.Sent = time.Now().UnixNano()
	d := e.Decide(context.Background(), nil, debits)
	s.Answered, s.degraded = time.Now().UnixNano(), d.Degraded
	if d.Allowed {
		if _, err := io.WriteString(c.said, s.String()); err != nil {
			panic(err) // nothing would be proved
		}
	} else if d.Retry <= 0 {
		panic(fmt.Sprintf("neither admitted nor told to wait: %+v", d))
	}
}
