package testserver

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is a fault of all connections, until another is set.
type Fault int32

// The faults.
const (
	// None passes everything on.
	None Fault = iota
	// BlackHole accepts connections, drops their data, and answers nothing.
	BlackHole
	// Stall holds all data until the fault ends, as a network does that loses packets for a while.
	Stall
)

// Cut tells whether a connection ends with a piece of data.
type Cut int

// The cuts.
const (
	Pass    Cut = iota // the piece is passed on
	Instead            // the connection ends, and the piece is lost
	Half               // half of the piece is passed on before the connection ends
	Unheard            // the piece is passed on, and the connection ends when it is answered
	AtOnce             // the piece is passed on, and the connection ends
	Late               // the piece is passed on at Release, even if the client is gone by then, and the connection ends
)

// Cuts returns all ways to end a connection now.
func Cuts() []Cut { return []Cut{Instead, Half, Unheard, AtOnce} }

// Proxy sits between clients and a server. Its methods may be called from any goroutine.
type Proxy struct {
	Port string

	listener net.Listener
	delay    atomic.Int64 // of each piece in each direction, in nanoseconds
	cut      atomic.Pointer[func() Cut]
	released chan struct{}
	group    sync.WaitGroup

	mu      sync.Mutex
	target  string         // guarded by mu: the server's address
	fault   Fault          // guarded by mu
	changed chan struct{}  // guarded by mu: closed when the fault changes
	links   map[*link]bool // guarded by mu; nil after Close
}

// NewProxy starts a proxy for the server at an address.
func NewProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Port: port, target: target, listener: listener,
		released: make(chan struct{}), changed: make(chan struct{}), links: make(map[*link]bool),
	}
	p.SetCut(nil)
	p.group.Go(p.accept)
	return p, nil
}

// Address returns the address of the proxy, with its port.
func (p *Proxy) Address() string { return net.JoinHostPort("127.0.0.1", p.Port) }

// Set begins a fault, and ends the one before. Connections in a black hole end with it.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.fault
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	for l := range p.links {
		if was == BlackHole {
			l.end(true)
		}
	}
}

// SetDelay delays each piece in each direction, from now on.
func (p *Proxy) SetDelay(d time.Duration) { p.delay.Store(int64(d)) }

// SetCut makes cut decide about each piece from a client from now on; nil passes all on. Several
// goroutines may call cut.
func (p *Proxy) SetCut(cut func() Cut) {
	if cut == nil {
		cut = func() Cut { return Pass }
	}
	p.cut.Store(&cut)
}

// Random returns a cut for SetCut that ends the connection with one of so many pieces, and changes the
// delay all the time.
func (p *Proxy) Random(pieces int) func() Cut {
	return func() Cut {
		p.SetDelay(3 * time.Millisecond * time.Duration(max(0, rand.IntN(10)-7)))
		if rand.IntN(pieces) > 0 {
			return Pass
		}
		return Cuts()[rand.IntN(len(Cuts()))]
	}
}

// SetServer connects clients to the server at an address. Connections to the one before end.
func (p *Proxy) SetServer(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	for l := range p.links {
		l.end(false)
	}
}

// Release passes on late pieces. It is called once.
func (p *Proxy) Release() { close(p.released) }

// HalfOpen closes the servers' sides of all connections, without notifying their clients. New
// connections are not affected.
func (p *Proxy) HalfOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.halfOpen()
	}
}

// Reset ends all connections, like a server that doesn't know them.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.end(true)
	}
}

// Close ends all connections and waits for them.
func (p *Proxy) Close() {
	p.Set(None)
	_ = p.listener.Close()
	p.mu.Lock()
	for l := range p.links {
		l.end(true)
	}
	p.links = nil
	p.mu.Unlock()
	p.group.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.group.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	l := &link{client: client}
	if !p.add(l) {
		return
	}
	defer p.remove(l)
	if f, _ := p.state(); f == BlackHole {
		_, _ = io.Copy(io.Discard, client)
		return
	}
	server, err := net.Dial("tcp", p.server())
	if err != nil || !l.join(server) {
		return
	}
	p.group.Go(func() { p.pass(l, server, client, l.answer) })
	p.pass(l, client, server, func() Cut {
		c := (*p.cut.Load())()
		l.unheard.Store(c == Unheard)
		return c
	})
}

func (p *Proxy) server() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

func (p *Proxy) state() (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links == nil {
		l.end(true)
		return false
	}
	p.links[l] = true
	return true
}

func (p *Proxy) remove(l *link) {
	l.end(false)
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}
