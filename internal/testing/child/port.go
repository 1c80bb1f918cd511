package child

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// takenPorts are the ports that this process has taken. None is taken twice: it may be a while
// until a server uses it.
var takenPorts sync.Map

// FreePort returns an unused TCP port of 127.0.0.1 for a server that a test starts. It stays free
// until that server uses it, also between two starts: it is outside the range from which the system
// chooses ports of connections, and no other test takes it until this process ends.
func FreePort() (string, error) {
	port, _, err := TakePort()
	return port, err
}

// TakePort is [FreePort] for a server that uses the UDP port, too. The guard keeps other processes
// from taking the port; the caller closes it before the server starts.
func TakePort() (port string, guard net.PacketConn, err error) {
	for range 1000 {
		port = fmt.Sprint(12000 + rand.N(20000))
		if _, taken := takenPorts.LoadOrStore(port, true); taken {
			continue
		}
		if guard, err = net.ListenPacket("udp", "127.0.0.1:"+port); err != nil {
			continue
		}
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = listener.Close()
			takenPorts.Store(port, guard)
			return port, guard, nil
		}
		_ = guard.Close()
	}
	return "", nil, errors.New("no port is free")
}
