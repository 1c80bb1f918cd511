// Package enforce is the path of a request: it evaluates what a request takes from which limits, has
// the engine decide, and answers. What it works with is compiled from a config, and doesn't change
// while that runs: nothing here knows JSON, Caddyfiles or provisioning.
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
//	                    limits   which limits hold               limits.go
//	                    key      what it is counted by           key.go
//	                    identify who has sent it                 client.go, identity/client
//	                    cost     how many units                  cost.go
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
//	or if it can't be decided about: an error, 499 if its client has gone
package enforce
