// Package httpfield reads and writes header fields of HTTP: caching, Retry-After, strings in
// structured fields, and preferred media types. It knows header maps and response writers, and
// nothing of limits or Caddy.
package httpfield
