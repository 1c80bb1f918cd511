package store

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
)

// TestSilentServer has a server fall silent: after accepting the connection, after the first message, after
// the second, and so on, until a store can be opened. All calls end with their context, and closing
// the store waits for nothing.
func TestSilentServer(t *testing.T) {
	silentAtOnce(t)
	for heard := int64(0); ; heard++ {
		s, err := openSilent(t, heard)
		if err == nil {
			within(t, "close", func() { err = s.Close() })
			if err != nil {
				t.Errorf("close: %v", err)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("the server is silent after %d messages, and open says %v", heard, err)
		}
	}
}

// openSilent opens a store on a server that answers a number of messages. When one more arrives,
// the context of the call is canceled.
func openSilent(t *testing.T, heard int64) (s storage.Store, err error) {
	server := sharedServer(t)
	proxy := newProxy(t, server)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		proxy.Release()
	})
	var messages atomic.Int64
	proxy.SetCut(func() testserver.Cut {
		if messages.Add(1) <= heard {
			return testserver.Pass
		}
		cancel()
		return testserver.Late
	})
	within(t, "open", func() { s, err = opener(t, server, proxy.Port, newOptions())(ctx) })
	proxy.SetCut(func() testserver.Cut { return testserver.Late })
	return s, err
}

// silentAtOnce has a server accept a connection and send nothing. Opening a store ends by itself.
func silentAtOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	o := newOptions()
	o.Timeout = 50 * time.Millisecond
	within(t, "open", func() {
		if _, err := opener(t, sharedServer(t), port, o)(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the server takes a connection and says nothing, and open says %v", err)
		}
	})
}

// within runs f, which must return soon.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience / 2):
		t.Fatalf("%s waits for a server that is silent", what)
	}
}
