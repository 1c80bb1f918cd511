package testserver

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is a client's connection with its connection to the server.
type link struct {
	client  net.Conn
	unheard atomic.Bool // the next answer ends it

	mu     sync.Mutex
	server net.Conn // guarded by mu; nil before there is one
	over   bool     // guarded by mu
	half   bool     // guarded by mu: the server's side is closed, unknown to the client
}

// answer returns the cut for the server's data.
func (l *link) answer() Cut {
	if l.unheard.Load() {
		return Instead
	}
	return Pass
}

// join gives the link its server. It returns false if the link is over.
func (l *link) join(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

// halfOpen closes the server's side only.
func (l *link) halfOpen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.half = true
	if l.server != nil {
		_ = l.server.Close()
	}
}

func (l *link) isHalf() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.half
}

// end ends both connections, the client's with a reset if asked.
func (l *link) end(reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	if tcp, ok := l.client.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// piece is data from one read, with the time for passing it on.
type piece struct {
	data []byte
	due  time.Time
	last bool // the connection ends with it
}

// pass passes on the data from one side, until either ends.
func (p *Proxy) pass(l *link, from, to net.Conn, cut func() Cut) {
	pieces := make(chan piece, 1000)
	var writing sync.WaitGroup
	writing.Go(func() { p.write(l, to, pieces) })
	for room := make([]byte, 1<<20); ; {
		n, err := from.Read(room)
		if err != nil {
			break
		}
		if f, _ := p.state(); f == BlackHole || l.isHalf() {
			continue
		}
		send := piece{data: append([]byte(nil), room[:n]...), due: time.Now().Add(time.Duration(p.delay.Load()))}
		switch cut() {
		case Instead:
			send.data, send.last = nil, true
		case Half:
			send.data, send.last = send.data[:n/2], true
		case AtOnce:
			send.last = true
		case Late:
			<-p.released
			send.last = true
		}
		pieces <- send
		if send.last {
			break
		}
	}
	close(pieces)
	writing.Wait()
	if !l.isHalf() {
		l.end(false)
	}
}

// write sends pieces when they are due, unless the network is stalled.
func (p *Proxy) write(l *link, to net.Conn, pieces <-chan piece) {
	for send := range pieces {
		<-time.After(time.Until(send.due))
		for f, changed := p.state(); f == Stall; f, changed = p.state() {
			<-changed
		}
		if f, _ := p.state(); f == BlackHole || l.isHalf() {
			continue
		}
		_, err := to.Write(send.data)
		if (err != nil || send.last) && !l.isHalf() {
			l.end(false) // further data is discarded
		}
	}
}
