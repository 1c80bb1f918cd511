package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// common is the server of tests that only need a place. It ends with the process.
var common struct {
	once   sync.Once
	server *testserver.RedisServer
	places atomic.Int64
}

func TestMain(m *testing.M) {
	proof.Overlap()
	defer func() {
		if common.server != nil {
			common.server.Close()
		}
	}()
	m.Run()
}

// newPlace returns options for a new place on the common server.
func newPlace(t testing.TB) Options {
	t.Helper()
	testserver.FindRedis(t)
	common.once.Do(func() { common.server = testserver.CommonRedis(t) })
	return Options{
		Addresses: []string{common.server.Address()},
		Prefix:    fmt.Sprintf("{t%d}", common.places.Add(1)),
		Timeout:   10 * time.Second,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storage.Opener {
		o := newPlace(t)
		o.wallTime = true
		if !proof.IsOn() {
			o.maxNotes = storagetest.FewNotes
		}
		return Opener(o)
	}, storagetest.ServerTime)
}
