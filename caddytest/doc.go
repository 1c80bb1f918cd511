// Package caddytest tests this module inside Caddy: Caddyfiles against the JSON
// and the errors that they are adapted to (*.caddyfiletest), and real Caddys in
// processes of their own, which are asked, reloaded, killed and deprived of their
// disks.
package caddytest
