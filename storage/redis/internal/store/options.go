package store

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Options say where the server is and how it is used. Addresses is required; the zero value of all
// else is the documented default.
type Options struct {
	// Addresses are those of the server, as host:port: of some nodes of a cluster, or of sentinels
	// if Master is given. One is enough.
	Addresses []string
	// Master is the sentinels' name of the server. "" means that there are none.
	Master string
	// Username and Password are for the server, as its ACL has them. "" means none.
	Username, Password string
	// Reread returns options for each new connection, of which users and passwords are used: they may
	// have changed. Nil means that these don't.
	Reread func() (Options, error)
	// SentinelUsername and SentinelPassword are for sentinels. "" means none.
	SentinelUsername, SentinelPassword string
	// Database is the number of the database. A cluster has only 0.
	Database int
	// TLS says how to encrypt. Nil means not at all.
	TLS *tls.Config
	// Prefix begins all keys and has a hash tag in it. "" means [DefaultPrefix].
	Prefix string
	// Timeout is how long a call may take whose context says nothing else. Zero means
	// [DefaultTimeout].
	Timeout time.Duration
	// Notice is called with notices for the server's administrators. It may be nil.
	Notice func(Notice)

	// dial connects to the server. Nil means by TCP.
	dial func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error)
	// wallTime has the wall clocks of callers for the server's, in tests.
	wallTime bool
	// maxNotes is how many notes a place holds, in tests. Zero means [storage.MaxNotes].
	maxNotes int
}

// Defaults of [Options].
const (
	DefaultPrefix  = "{tally}"
	DefaultTimeout = time.Second
)

// Notice is a notice for the server's administrators.
type Notice struct {
	// Policy is the server's maxmemory-policy if it may remove counts.
	Policy string
}
