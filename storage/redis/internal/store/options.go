package store

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Options say where the server is and how it is used. Addresses is required. For the other fields the
// zero value is the documented default.
type Options struct {
	// Addresses are addresses of the server, as host:port: of any nodes of a cluster, or of sentinels
	// if Master is given. One is enough.
	Addresses []string
	// Master is the name of the server at the sentinels. "" means that there are no sentinels.
	Master string
	// Username and Password are for the server, as its ACL has them. "" means none.
	Username, Password string
	// Reread returns options for each new connection, because users and passwords may have changed.
	// Only these are used. Nil means that they don't change.
	Reread func() (Options, error)
	// SentinelUsername and SentinelPassword are for sentinels. "" means none.
	SentinelUsername, SentinelPassword string
	// Database is the number of the database. A cluster has only number 0.
	Database int
	// TLS configures encryption. Nil means none.
	TLS *tls.Config
	// Prefix is the prefix of all keys, with a hash tag. "" means "{tally}".
	Prefix string
	// Timeout is how long a call may take, unless its context ends before. Zero means
	// a second.
	Timeout time.Duration
	// Evicts is called with the server's maxmemory-policy if that may remove counts. It may be nil.
	Evicts func(policy string)

	// dial connects to the server. Nil means over TCP.
	dial func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error)
	// wallTime uses the callers' wall clocks in place of the server's, in tests.
	wallTime bool
	// maxNotes is how many notes a place holds, in tests. Zero means [storage.MaxNotes].
	maxNotes int
}

// Defaults of [Options].
const (
	defaultPrefix  = "{tally}"
	defaultTimeout = time.Second
)
