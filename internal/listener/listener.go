package listener

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Wrap returns a listener whose connections must pass the door.
func (d *Door) Wrap(l net.Listener) net.Listener { return &guarded{l, d} }

type guarded struct {
	net.Listener
	door *Door
}

// Accept implements net.Listener. It closes connections that may not enter, and goes on.
func (g *guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			return &laterConn{Conn: c, door: g.door}, nil
		}
		network, o := g.door.enter(addressOf(tcp), time.Now())
		switch {
		case o > Entered:
			_ = tcp.SetLinger(0) // no connection that waits for its end remains in the system
			_ = tcp.Close()
		case o == Entered && g.door.Most > 0:
			return &openConn{TCPConn: tcp, leave: sync.OnceFunc(func() { open.Leave(network) })}, nil
		default:
			return tcp, nil
		}
	}
}

// addressOf returns the address of a connection's client, or the zero address if that isn't one of IP. A PROXY header
// may also name a client of datagrams. If it names one without an IP address, the client is the proxy.
func addressOf(c net.Conn) netip.Addr {
	switch addr := c.RemoteAddr().(type) {
	case *net.TCPAddr:
		return addr.AddrPort().Addr()
	case *net.UDPAddr:
		return addr.AddrPort().Addr()
	}
	if proxied, ok := c.(interface{ Raw() net.Conn }); ok {
		return addressOf(proxied.Raw())
	}
	return netip.Addr{}
}

// openConn is a connection that has a place. It has all that a TCP connection has, such as sendfile.
type openConn struct {
	*net.TCPConn
	leave func()
}

// Close implements net.Conn.
func (c *openConn) Close() error {
	c.leave()
	return c.TCPConn.Close()
}

// laterConn is a connection whose address is known when its first bytes have come.
type laterConn struct {
	net.Conn
	door    *Door
	decides sync.Once
	refused bool // set by decides

	mu      sync.Mutex
	network string // guarded by mu: has a place; "" for none
	closed  bool   // guarded by mu
}

// Read implements net.Conn.
func (c *laterConn) Read(b []byte) (int, error) {
	c.decides.Do(c.decide)
	if c.refused {
		return 0, net.ErrClosed // a reader of headers may have more than the header
	}
	return c.Conn.Read(b)
}

// decide closes the connection if it may not enter.
func (c *laterConn) decide() {
	addr := addressOf(c.Conn) // may wait
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	network, o := c.door.enter(addr, time.Now())
	if o == Entered && c.door.Most > 0 {
		c.network = network
	}
	c.mu.Unlock()
	if c.refused = o > Entered; c.refused {
		_ = c.Close()
	}
}

// Close implements net.Conn.
func (c *laterConn) Close() error {
	c.mu.Lock()
	if c.network != "" {
		open.Leave(c.network)
	}
	c.network, c.closed = "", true
	c.mu.Unlock()
	return c.Conn.Close()
}
