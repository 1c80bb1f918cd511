// Package dashboard shows a person in a browser what the rate limiter does, and lets them
// steer it. It is an http.Handler over an [operator.Service] and knows nothing else of the
// limiter.
//
// Pages are rendered by the server and work without scripts. One ES module adds what is
// live: totals from the route `events`, plots, and times in the reader's time zone. All
// files are embedded; no page loads anything from another origin.
//
// [Door] is the door for a listener on loopback, which has no authentication of its own.
//
// # Where it may be mounted
//
// Only the last segment of the path is looked at, and all links are relative. So the handler
// works below any path, whether or not a prefix was stripped, if its first page ends with a
// slash.
//
// # Invariants
//
//   - A client is named in the body of a POST, never in a path or query, which are logged.
//   - Every POST is from the same origin and has the user's token. See guard.go.
//   - A page holds no address that it doesn't show: rows name their client by a sealed
//     handle until somebody reveals the addresses. See mask.go and seal.go.
//   - Whatever is sent, memory is bounded: bodies by operator.MaxBody, streams by
//     Options.MaxStreams, lists by operator.MaxItems.
//   - Nothing that a client chose becomes markup or script: html/template escapes it, the
//     module writes text nodes only, and the policy allows no script without the nonce.
package dashboard
