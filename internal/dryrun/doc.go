// Package dryrun follows a request through the handlers of a Caddy server without serving it. It
// visits the handlers that the request reaches, with the request as it is there.
//
// Matchers run as for any request. Of the handlers only those run that change nothing but the
// request: vars, map, rewrite. Authentication counts as passed. The path ends where Caddy would
// answer: at a file server, a proxy, a redirect.
package dryrun
