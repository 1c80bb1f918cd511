// Package dryrun follows a request through the handlers of a Caddy server without serving
// it: which of them it comes to, and what it looks like there.
//
// Matchers are asked, as they are for any request. Of the handlers only those run that
// change nothing but the request: vars, map, rewrite. Those that ask for a user are taken as
// passed. The way ends where Caddy would answer: at a file server, a proxy, a redirect.
package dryrun
