//go:build linux

package main

import (
	"net"
	"sync"
	"time"
)

// A delay is a proxy before a server, which passes on what comes after a while, both ways.
type delay struct {
	address string

	listener net.Listener
	to       string
	by       time.Duration
	group    sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn // guarded by mu; nil when it is closed
}

// newDelay starts a proxy.
func newDelay(to string, by time.Duration) (*delay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delay{address: listener.Addr().String(), listener: listener, to: to, by: by, conns: []net.Conn{}}
	d.group.Go(d.accept)
	return d, nil
}

// close closes all connections and waits until the proxy has ended.
func (d *delay) close() {
	_ = d.listener.Close()
	d.mu.Lock()
	conns := d.conns
	d.conns = nil
	d.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
	d.group.Wait()
}

func (d *delay) accept() {
	for {
		client, err := d.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", d.to)
		if err != nil || !d.add(client, server) {
			_ = client.Close()
			if server != nil {
				_ = server.Close()
			}
			continue
		}
		d.group.Go(func() { d.pass(client, server) })
		d.group.Go(func() { d.pass(server, client) })
	}
}

// add notes connections to be closed, and reports whether the proxy is open.
func (d *delay) add(conns ...net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		return false
	}
	d.conns = append(d.conns, conns...)
	return true
}

// A chunk is some bytes, and when they are passed on.
type chunk struct {
	bytes []byte
	due   time.Time
}

// pass passes on what one side sends until either is closed. What comes later doesn't wait for
// what came before it.
func (d *delay) pass(from, to net.Conn) {
	chunks := make(chan chunk, 1<<12)
	d.group.Go(func() {
		for c := range chunks {
			time.Sleep(time.Until(c.due))
			if _, err := to.Write(c.bytes); err != nil {
				_ = from.Close() // which ends the reader
			}
		}
		_ = to.Close()
	})
	defer close(chunks)
	room := make([]byte, 1<<16)
	for {
		n, err := from.Read(room)
		if err != nil {
			return
		}
		chunks <- chunk{append([]byte(nil), room[:n]...), time.Now().Add(d.by)}
	}
}
