//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/redis"
)

// A decider decides about requests of one goroutine.
type decider func(ctx context.Context, key []byte) (allowed bool, err error)

// A way is a limiter of one machine.
type way struct {
	decider func() decider // returns one for a goroutine
	close   func()
}

// The ways, by name.
const (
	incrby = "incrby" // as Envoy's ratelimit does by default
	script = "script" // as Traefik does
	tally  = "tally"
)

// wayNames are the ways in the order in which they are measured.
var wayNames = []string{incrby, script, tally}

// newWay returns a way.
func newWay(s setup) (way, error) {
	switch s.Way {
	case incrby:
		return newIncrby(s)
	case script:
		return newScript(s)
	case tally:
		return newTally(s)
	}
	return way{}, fmt.Errorf("expected one of %v, got %q", wayNames, s.Way)
}

// connect returns a client with the defaults of its library, which puts commands that come at a
// time into one pipeline.
func connect(address string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
}

// newIncrby returns the way that counts each request with INCRBY in a fixed window, and sets when
// the count expires, in one pipeline.
func newIncrby(s setup) (way, error) {
	client, err := connect(s.Address)
	if err != nil {
		return way{}, err
	}
	seconds := int64(s.Window / time.Second)
	decide := func(ctx context.Context, key []byte) (bool, error) {
		name := string(key) + "_" + strconv.FormatInt(time.Now().Unix()/seconds*seconds, 10)
		answers := client.DoMulti(ctx,
			client.B().Incrby().Key(name).Increment(1).Build(),
			client.B().Expire().Key(name).Seconds(seconds).Build())
		count, err := answers[0].AsInt64()
		return count <= s.Amount, err
	}
	return way{func() decider { return decide }, client.Close}, nil
}

// bucket takes a unit of a bucket of ARGV[1] units, of which ARGV[2] are refilled in a second, as of
// the caller's time ARGV[3] in seconds. It forgets a bucket after ARGV[4] milliseconds.
const bucket = `
local kept = redis.call('HMGET', KEYS[1], 'units', 'at')
local capacity, now = tonumber(ARGV[1]), tonumber(ARGV[3])
local units, at = tonumber(kept[1]) or capacity, tonumber(kept[2]) or now
now = math.max(now, at)
units = math.min(capacity, units + (now - at) * tonumber(ARGV[2]))
local allowed = units >= 1 and 1 or 0
redis.call('HSET', KEYS[1], 'units', units - allowed, 'at', now)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return allowed
`

// newScript returns the way that runs a script for each request, which keeps a token bucket.
func newScript(s setup) (way, error) {
	client, err := connect(s.Address)
	if err != nil {
		return way{}, err
	}
	lua := rueidis.NewLuaScript(bucket)
	capacity, rate := strconv.FormatInt(s.Amount, 10), strconv.FormatFloat(float64(s.Amount)/s.Window.Seconds(), 'g', -1, 64)
	expires := strconv.FormatInt(s.Window.Milliseconds(), 10)
	decide := func(ctx context.Context, key []byte) (bool, error) {
		now := strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)
		allowed, err := lua.Exec(ctx, client, []string{string(key)}, []string{capacity, rate, now, expires}).AsInt64()
		return allowed == 1, err
	}
	return way{func() decider { return decide }, client.Close}, nil
}

// newTally returns this module's way: its engine on its store, which decides by a sliding limit.
func newTally(s setup) (way, error) {
	store := &redis.Store{URL: "redis://" + s.Address}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	if err := store.Provision(ctx); err != nil {
		return way{}, err
	}
	place, err := lab.NewPlace(s.Folder)
	if err != nil {
		return way{}, err
	}
	e := place.NewEngine(engine.Options{
		Open:         func(ctx context.Context) (storage.Store, error) { return store.Open(ctx, s.Timeout) },
		StoreTimeout: s.Timeout,
		Remote:       true,
		Observer:     outages{},
	})
	<-e.Ready()
	limit, err := lab.NewLimit(limiter.Params{Amount: s.Amount, Window: s.Window})
	if err != nil {
		return way{}, err
	}
	return way{func() decider { return decideBy(e, limit) }, func() { closeEngine(e, s.Timeout) }}, nil
}

// outages prints why the store can't be used.
type outages struct{ lab.Silent }

func (outages) Degraded(since time.Duration, err error) {
	fmt.Fprintf(os.Stderr, "the store can't be used since %v: %v\n", since, err)
}

func (outages) Recovered(after time.Duration) {
	fmt.Fprintf(os.Stderr, "the store is in use again after %v\n", after)
}

// decideBy returns a decider that asks an engine.
func decideBy(e *engine.Engine, limit *engine.Limit) decider {
	debits := make([]engine.Debit, 1)
	return func(ctx context.Context, key []byte) (bool, error) {
		debits[0] = engine.Debit{Limit: limit, Key: key, Cost: 1}
		d := e.Decide(ctx, nil, debits)
		if d.Degraded {
			return d.Allowed, fmt.Errorf("the store couldn't be used")
		}
		return d.Allowed, nil
	}
}

// closeEngine closes an engine, which gives back what it holds if that doesn't take long.
func closeEngine(e *engine.Engine, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = e.Close(ctx)
}
