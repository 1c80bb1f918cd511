// Package dashboard shows the state of the rate limiter in a browser, and acts on clients for its
// user. It is an http.Handler over an [operator.Service] and knows nothing else of the limiter.
//
// Pages are rendered by the server and work without scripts. One ES module adds the live parts:
// totals from the route `events`, plots, and times in the user's time zone. All files are embedded;
// no page loads anything from another origin.
//
// [Door] authenticates the user of a listener on loopback.
//
// # Where it may be mounted
//
// The handler uses only the last segment of the path, and all links are relative. So it works below
// any path, whether or not a prefix was stripped, if its first page ends with a slash.
//
// # Invariants
//
//   - A client is named in the body of a POST, never in a path or query, which are logged (decision 68).
//   - Every POST is from the same origin and has the user's token. See guard.go.
//   - A page contains no hidden addresses: rows name their client by a sealed handle until the user
//     reveals the addresses. See seal.go and stream.go.
//   - Memory is bounded for all input: bodies by operator.MaxBody, streams by
//     Options.MaxStreams, lists by operator.MaxItems.
//   - No client's text becomes markup or script: html/template escapes it, the module writes text
//     nodes only, and the policy allows no script without the nonce.
package dashboard
