// Package enforce processes a request: it collects the request's debits, makes the engine decide,
// and answers. Its types are compiled from a config and don't change while the config runs. The
// package knows no JSON, Caddyfiles or provisioning.
//
// # The life of a request
//
//	Handler.ServeHTTP                                            evaluate.go
//	  |
//	  |- below the session's path: Handler.serveSession          challenge.go, solution.go
//	  |
//	  '- Handler.evaluate -> result
//	       Begin      attach the client, strip its cookie        evaluation.go, session.go
//	       Decide, decideEnforced
//	         Collect  exempt requests                            evaluate.go
//	                  rules: bans and allowances                 rules.go, internal/rules
//	                  checkConduct: traps, forged sessions       conduct.go
//	                  for each zone that matches:
//	                    load     whether it applies at present   load.go
//	                    limits   limits that apply               limits.go
//	                    key      key of the counts               key.go, address.go, credentials.go
//	                    identify the client                      client.go, identity/client
//	                    cost     units                           cost.go
//	         readBody before units are held                      read_body.go, internal/readahead
//	         enter    places of requests under way               concurrency.go
//	         engine   all debits or none, perhaps later          delay.go, internal/engine
//	       decideShadows: each shadow limit alone                shadow.go
//	       report     log, event, metrics of a refusal           report.go, decision_log.go
//	       Release
//
//	  switch on result.Outcome
//	    Passed, Counted     next handler                         answer_writer.go
//	                          header fields, if counted          response.go
//	                          limits that count by the answer    pending.go, settled.go, settle.go
//	                          places are left                    concurrency.go
//	    Refused             429, or 403 if it costs too much     refuse.go, refusal.go
//	    challenged          429 with a page                      challenge.go
//	    postponed           503, often with a page               concurrency.go, stop.go
//	    tooEarly            425                                  refuse.go
//	    Denied              400, 401, 403                        refuse.go
//
//	Without a decision: an error, or 499 if the client has gone.
//
// config.go has the types that a config compiles to, tenant.go and lifecycle.go its use of the
// instance. history.go, sample.go, reference.go and late.go note what others read later.
package enforce
