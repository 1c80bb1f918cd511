// Package tally is a rate limiter for Caddy: the HTTP handler `rate_limit`
// (http.handlers.rate_limit), the app of the same name with the global options, and the
// modules that come with them.
//
// Only this package knows Caddy and HTTP. It takes values out of a request, asks
// identity/client who has sent it and limiter/engine whether it may pass, and writes the
// answer. A store keeps the counts: storage/sqlite in a file, storage/memory in none.
//
// # The life of a request
//
//	Handler.ServeHTTP                                            handler.go
//	  |
//	  |- below the session's path: Handler.serveSession          challenge_serve.go
//	  |
//	  '- Handler.evaluate -> result                              evaluate.go
//	       begin      attach the client, strip its cookie        begin.go, client.go
//	       decide
//	         collect  checkConduct: traps, forged sessions       conduct.go
//	                  for each zone that matches:
//	                    limits   which limits hold               limits.go
//	                    key      what it is counted by           counting_key.go
//	                    identify who has sent it                 identify.go, identity/client
//	                    cost     how many units                  cost.go
//	         engine   all debits or none                         limiter/engine
//	       report     log, event, metrics of a refusal           report.go
//	       release
//
//	  switch on result.outcome                                   outcome.go
//	    passed              next handler
//	    counted             next handler, header fields          response.go
//	    refused             429                                  refuse.go
//	    challenged          429 with a page                      challenge_offer.go
//	    tooEarly            425                                  refuse.go
//	    denied, abandoned   400, 401, 403, 499                   refuse.go
//
// # Read in this order
//
//   - module.go, handler.go: [Handler], its options, Provision and ServeHTTP
//   - outcome.go, evaluate.go, evaluation.go: how a request is decided
//   - conduct.go, limits.go, counting_key.go, cost.go: the steps of that
//   - client.go, authenticate.go, session_cookie.go: values that identity/client needs
//   - response.go, refuse.go, report.go, challenge_offer.go, challenge_serve.go: answers
//   - pressure.go: networks that too many clients come from
//   - instance.go, app.go: the engine, its store and its secrets, across reloads
//   - zone.go, zone_provision.go, limit_set.go, ceiling.go, scope.go: what a config becomes
//   - tier.go, api_keys.go, session.go, challenge.go, reputation.go, ban.go, trap.go: the
//     other options, with the comments that are their documentation
//   - caddyfile.go and the files that begin with caddyfile: the grammar, a function per block
//
// A config that is only looked at, or that is rejected, opens, makes and changes nothing:
// the store opens when the whole config has started.
//
// # Glossary
//
//   - zone: a class of requests, and what it is counted per
//   - limit: an amount of units in a window
//   - key: what a zone counts by; its first byte, the tag, tells its kind
//   - unit: what is counted; a request costs 1 unless a zone says otherwise
//   - evaluation: one request on its way to a decision
//   - debit: what a request takes from one limit.
//   - decision: all debits are charged, or none
//   - client: who a request is from; subject: the client, or the part of it, whose record
//     of violations counts
//   - network: the addresses that are one client's, a /32 or a /64 by default
//   - anonymous: a client without an API key; verified: one that can't choose who it is
//   - claimed address: one that the client may have written itself
//   - claim: units that the engine asks the store for; grant: what the store gives;
//     lease: granted units that memory may spend
//   - slot: a part of a window that is counted by itself
//   - blocked: refused until a known time, remembered in memory
//   - banned: refused for violations, remembered on disk
//   - degraded: the store can't be used, and memory decides with reduced limits
//   - instance: an engine with its store and secrets, shared by configs across reloads
package tally
