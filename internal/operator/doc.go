// Package operator says what an operator sees of a running rate limiter, and what they can
// do to it. It holds the values, their JSON, and [Service], which they are had through.
//
// There is one service, the running Caddy. The admin endpoint offers it over HTTP
// ([NewHandler]), a [Client] is the same service from afar, and the commands and the
// dashboard are written against the interface: they can't tell the two apart.
//
//	dashboard in a site ----------------------------------.
//	                                                       v
//	commands, dashboard over a loopback port -> Client -> Handler -> Service in Caddy
//
// # Invariants
//
//   - Who a request is about is in the body, never in a path or query, which Caddy logs.
//   - What changes something is in the audit before it is answered.
//   - Nothing secret is in an answer: no API key, session, secret or cookie.
//   - Whatever is asked for, an answer is bounded: see [MaxItems].
package operator
