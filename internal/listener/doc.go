// Package listener closes connections before TLS and HTTP: those of banned networks, those beyond a number
// of open ones, and those beyond a rate of new ones. Most of what a refused request costs is paid when its
// connection is set up, so a flood is refused before that (decision 159).
//
//	door.go      which connections may enter
//	table.go     the counts of new connections, in bounded memory
//	listener.go  the listener and its connections
//
// # Invariants
//
//   - Nothing waits for a store or for a client. A listener knows a client's address when it accepts a plain TCP
//     connection. Asking any other connection may wait for a PROXY protocol header, so it is asked at its
//     first Read, by its own goroutine.
//   - The counts belong to the process: they outlive a config, and connections that are open count in the next one.
//   - A network has one count for all listeners.
//   - Memory is bounded by the number of open connections and by maxCounted networks.
package listener
