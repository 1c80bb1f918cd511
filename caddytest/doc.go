// Package caddytest tests this module inside Caddy: what Caddyfiles are adapted to,
// which errors they get, and real Caddys in processes of their own, which are asked,
// reloaded, killed and deprived of their disks.
//
// What Caddyfiles are adapted to is in testdata/adapt, and which errors they get in
// testdata/errors; package golden describes both forms. Run the tests with -update to
// write the JSON again, and read the difference.
package caddytest
