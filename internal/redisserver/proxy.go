package redisserver

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Fault is what a proxy does to connections.
type Fault int32

// The faults.
const (
	// None passes everything on.
	None Fault = iota
	// CutCall cuts a connection when a call comes, which the server doesn't get.
	CutCall
	// CutAnswer cuts a connection when an answer comes, which the client doesn't get.
	CutAnswer
	// HoldCalls keeps calls until Release, and then sends them to the server.
	HoldCalls
	// Silent passes nothing on, and lets connections be made.
	Silent
)

// Proxy is between a client and a server, and does something to their connections.
type Proxy struct {
	Address string

	to    string
	fault atomic.Int32
	cuts  atomic.Int64
	calls atomic.Int64 // that come until then is set, or none if it isn't positive
	then  atomic.Int32

	mu       sync.Mutex
	released chan struct{} // guarded by mu: closed by Release
	conns    []net.Conn    // guarded by mu
}

// NewProxy starts a proxy before a server, which ends with the test.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: listener.Addr().String(), to: s.Address, released: make(chan struct{})}
	var group sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		p.Release()
		p.mu.Lock()
		for _, conn := range p.conns {
			_ = conn.Close()
		}
		p.mu.Unlock()
		group.Wait()
	})
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { p.serve(client) })
		}
	})
	return p
}

// Set has the proxy do something from now on. CutCall and CutAnswer happen once.
func (p *Proxy) Set(f Fault) { p.fault.Store(int32(f)) }

// SetAfter has the proxy do something after so many more calls.
func (p *Proxy) SetAfter(calls int64, f Fault) {
	p.then.Store(int32(f))
	p.calls.Store(calls + 1)
}

// Cuts returns how many connections were cut.
func (p *Proxy) Cuts() int64 { return p.cuts.Load() }

// Release sends the calls that were held, and holds none from now on.
func (p *Proxy) Release() {
	p.Set(None)
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.released)
	p.released = make(chan struct{})
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pass(client, server, CutCall) })
	both.Go(func() { p.pass(server, client, CutAnswer) })
	both.Wait()
	_ = client.Close()
	_ = server.Close()
}

// pass passes on what one side sends, until either is closed.
func (p *Proxy) pass(from, to net.Conn, cut Fault) {
	room := make([]byte, 1<<16)
	for {
		n, err := from.Read(room)
		if err != nil {
			break
		}
		if cut == CutCall && p.calls.Add(-1) == 0 {
			p.fault.Store(p.then.Load())
		}
		if p.fault.CompareAndSwap(int32(cut), int32(None)) {
			p.cuts.Add(1)
			_ = from.Close()
			break
		}
		switch Fault(p.fault.Load()) {
		case Silent:
			continue
		case HoldCalls:
			if cut == CutCall {
				p.mu.Lock()
				released := p.released
				p.mu.Unlock()
				<-released
			}
		}
		if _, err := to.Write(room[:n]); err != nil {
			break
		}
	}
	if tcp, ok := to.(*net.TCPConn); ok && cut == CutCall {
		_ = tcp.CloseWrite() // what the server has to say may still come
		return
	}
	_ = to.Close()
}
