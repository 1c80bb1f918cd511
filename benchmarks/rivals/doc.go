// Package rivals benchmarks the decision engine beside other rate limiters for
// Go, in one grid: one key, 100,000 and a million; requests that are allowed and
// requests that are refused; from one goroutine and from all processors.
//
// The others keep their counts in memory and forget them with the process. The
// engine runs as it does in Caddy: its counts are in a SQLite database, and
// claims that fall into the measured time are in its figures.
//
// It is a module of its own, so that nobody who builds Caddy with this plugin
// gets the others as well.
package rivals
