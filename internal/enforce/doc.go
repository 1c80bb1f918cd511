// Package enforce processes a request: it collects the request's debits, makes the engine decide,
// and answers. Its types are compiled from a config and don't change while the config runs. The
// package knows no JSON, Caddyfiles or provisioning.
//
// # The life of a request
//
//	Handler.ServeHTTP                                            evaluate.go
//	  |
//	  |- below the session's path: Handler.serveSession          challenge.go
//	  |
//	  '- Handler.evaluate -> result
//	       Begin      attach the client, strip its cookie        evaluation.go, client.go
//	       Decide
//	         Collect  statement: bans and allowances             rules.go, internal/rules
//	                  checkConduct: traps, forged sessions       conduct.go
//	                  for each zone that matches:
//	                    limits   limits that apply               limits.go
//	                    key      key of the counts               key.go
//	                    identify the client                      client.go, identity/client
//	                    cost     units                           cost.go
//	         engine   all debits or none                         limiter/engine
//	       report     log, event, metrics of a refusal           report.go
//	       Release
//
//	  switch on result.Outcome
//	    Passed              next handler
//	    Counted             next handler, header fields          response.go
//	                        limits that count by status          pending.go
//	    Refused             429, or 403 if it costs too much     refuse.go
//	    challenged          429 with a page                      challenge.go
//	    tooEarly            425                                  refuse.go
//	    Denied              400, 401, 403                        refuse.go
//
//	Without a decision: an error, or 499 if the client has gone.
package enforce
