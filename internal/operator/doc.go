// Package operator defines an operator's view of a running rate limiter, and the actions on it. It
// has the values, their JSON, and the interface [Service].
//
// There is one service, the running Caddy. The admin endpoint offers it over HTTP ([NewHandler]), a
// [Client] is the same service over a connection, and the commands and the dashboard use the
// interface: they can't tell the two apart.
//
//	dashboard in a site ----------------------------------------------.
//	                                                                  v
//	commands, dashboard over a loopback port -> Client -> Handler -> Service in Caddy
//
// # Invariants
//
//   - The client of a request is named in the body, never in a path or query, which Caddy logs.
//   - A change is in the audit before it is answered.
//   - Answers contain no secrets: no API key, session, secret or cookie.
//   - All answers are bounded: see [MaxItems].
package operator
