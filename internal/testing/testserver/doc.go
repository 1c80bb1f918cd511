// Package testserver runs Redis, Postgres and MariaDB servers for tests, from the installed
// programs: each with a folder and a port of its own, so that a test can kill and restart it.
// [Proxy] sits between clients and a server, and delays and cuts their connections.
package testserver
