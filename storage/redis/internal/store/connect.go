package store

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/redis/rueidis"
)

// connect connects to the server. The client repeats no call: see [server.send].
func connect(ctx context.Context, o Options, through *conns) (rueidis.Client, error) {
	options := rueidis.ClientOption{
		InitAddress:         o.Addresses,
		Username:            o.Username,
		Password:            o.Password,
		SelectDB:            o.Database,
		TLSConfig:           o.TLS,
		DialCtxFn:           through.dial,
		ClientName:          "caddy-tally",
		ClientSetInfo:       rueidis.DisableClientSetInfo,
		DisableCache:        true,
		DisableRetry:        true,
		PipelineMultiplex:   -1, // one connection
		RingScaleEachConn:   8,
		ReadBufferEachConn:  1 << 16,
		WriteBufferEachConn: 1 << 16,
		ConnWriteTimeout:    openTimeout,
		// nodes may disagree about a slot for a while
		ClusterOption: rueidis.ClusterOption{MaxMovedRedirections: 8},
	}
	options.Dialer.Timeout = openTimeout
	if o.Reread != nil {
		options.AuthCredentialsFn = o.credentials
	}
	if o.Master != "" {
		options.Sentinel = rueidis.SentinelOption{
			MasterSet: o.Master, Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLS,
			TopologyRefreshInterval: 5 * openTimeout,
		}
		options.Sentinel.Dialer = net.Dialer{Timeout: openTimeout, Resolver: forSentinels}
	}
	type result struct {
		client rueidis.Client
		err    error
	}
	made := make(chan result, 1)
	go func() {
		client, err := rueidis.NewClient(options)
		made <- result{client, err}
	}()
	select {
	case r := <-made:
		return r.client, explain(o.explainSilence(r.err))
	case <-ctx.Done():
		through.close() // so that NewClient stops waiting for a silent server
		if r := <-made; r.client != nil {
			r.client.Close()
		}
		return nil, o.explainSilence(ctx.Err())
	}
}

// credentials returns the present user and password for a new connection.
func (o Options) credentials(conn rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	now, err := o.Reread()
	if _, ok := conn.Address.(sentinelAddr); ok {
		return rueidis.AuthCredentials{Username: now.SentinelUsername, Password: now.SentinelPassword}, err
	}
	return rueidis.AuthCredentials{Username: now.Username, Password: now.Password}, err
}

// forSentinels resolves names as the default resolver does. Only dialers of connections to sentinels
// have it, which identifies them.
var forSentinels = new(net.Resolver)

// sentinelConn is a connection to a sentinel. The type of its address says so.
type sentinelConn struct{ net.Conn }

type sentinelAddr struct{ net.Addr }

// RemoteAddr implements [net.Conn].
func (c sentinelConn) RemoteAddr() net.Addr { return sentinelAddr{c.Conn.RemoteAddr()} }

// conns are the connections of a store. close ends all of them, also those that are being made.
type conns struct {
	by    func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error)
	life  context.Context
	close context.CancelFunc
}

func newConns(by func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)) *conns {
	if by == nil {
		by = dialTCP
	}
	c := &conns{by: by}
	c.life, c.close = context.WithCancel(context.Background())
	return c
}

func dialTCP(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return dialer.DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address)
}

func (c *conns) dial(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	conn, err := c.by(ctx, address, dialer, config)
	if err != nil {
		return nil, err
	}
	if dialer.Resolver == forSentinels {
		conn = sentinelConn{conn}
	}
	return tracked{conn, context.AfterFunc(c.life, func() { _ = conn.Close() })}, nil
}

// tracked is a connection of a store.
type tracked struct {
	net.Conn
	forget func() bool
}

// Close implements [net.Conn].
func (t tracked) Close() error {
	t.forget()
	return t.Conn.Close()
}
