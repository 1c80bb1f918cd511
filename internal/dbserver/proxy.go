package dbserver

import (
	"net"
	"sync"
	"sync/atomic"
)

// Cut is what a proxy does with a message from a client.
type Cut int

// What a proxy may do.
const (
	Pass   Cut = iota // hands it on
	Before            // ends the connection instead
	After             // hands it on, waits for the answer, and ends the connection instead of handing that on
	Amid              // hands it on and ends the connection
	Late              // keeps it until Release, and hands it on then, also if the client is gone
)

// Proxy is between clients and a server.
type Proxy struct {
	Port     string
	listener net.Listener
	cut      atomic.Pointer[func() Cut]

	released chan struct{}

	mu     sync.Mutex
	target string            // guarded by mu: the address of the server
	conns  map[net.Conn]bool // guarded by mu: nil once it is closed
	group  sync.WaitGroup
}

// NewProxy starts a proxy before a server's port.
func NewProxy(port string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, conns: make(map[net.Conn]bool), released: make(chan struct{})}
	p.SetServer(port)
	_, p.Port, err = net.SplitHostPort(l.Addr().String())
	p.SetCut(func() Cut { return Pass })
	p.group.Go(p.accept)
	return p, err
}

// SetCut sets what happens to each message from a client. cut may be called by several
// goroutines.
func (p *Proxy) SetCut(cut func() Cut) { p.cut.Store(&cut) }

// SetServer has clients reach the server with a port. Connections to the one before end.
func (p *Proxy) SetServer(port string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = net.JoinHostPort("127.0.0.1", port)
	for c := range p.conns {
		_ = c.Close()
	}
}

// Release hands on what is late. It is called once.
func (p *Proxy) Release() { close(p.released) }

// Close ends all connections and waits for that.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.group.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if server := p.connect(client); server != nil {
			p.group.Go(func() { p.serve(client, server) })
		}
	}
}

// connect connects a client to the server. It returns nil, and ends the client's connection, if
// there is none.
func (p *Proxy) connect(client net.Conn) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns != nil {
		if server, err := net.Dial("tcp", p.target); err == nil {
			p.conns[client], p.conns[server] = true, true
			return server
		}
	}
	_ = client.Close()
	return nil
}

// serve hands messages on until the connection ends.
func (p *Proxy) serve(client, server net.Conn) {
	var deaf atomic.Bool // the server's next answer ends the connection
	end := func() {
		_, _ = client.Close(), server.Close()
		p.mu.Lock()
		delete(p.conns, client)
		delete(p.conns, server)
		p.mu.Unlock()
	}
	p.group.Go(func() {
		defer end()
		p.pump(server, client, func() Cut {
			if deaf.Load() {
				return Before
			}
			return Pass
		})
	})
	defer end()
	p.pump(client, server, func() Cut {
		cut := (*p.cut.Load())()
		if cut == After {
			deaf.Store(true)
			return Pass
		}
		return cut
	})
}

// pump hands messages on from one side to the other, as cut says.
func (p *Proxy) pump(from, to net.Conn, cut func() Cut) {
	buffer := make([]byte, 1<<20)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		switch is := cut(); is {
		case Before:
			return
		case Late:
			<-p.released
			_, _ = to.Write(buffer[:n])
			return
		default:
			if _, err := to.Write(buffer[:n]); err != nil || is == Amid {
				return
			}
		}
	}
}
