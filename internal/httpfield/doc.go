// Package httpfield reads and writes header fields of HTTP: how long caches may keep an
// answer, how long to wait, strings in structured fields, and which media type a client
// prefers. It knows header maps and response writers, and nothing of limits or Caddy.
package httpfield
