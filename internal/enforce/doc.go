// Package enforce decides about a request: it collects the request's debits, and makes the engine
// decide. The verdict is a value, by which other packages answer, settle and report (decision 156). Its types
// are compiled from a config and don't change while the config runs. The package knows no JSON, Caddyfiles
// or provisioning.
//
// # The life of a request
//
//	Handler.ServeHTTP                                            evaluate.go
//	  |
//	  '- Handler.evaluate -> Result
//	       Begin      remove fields, attach the client           frame.go, session.go
//	       Decide     by a Decider -> Verdict                    frame.go, verdict.go
//	         Collect  exempt requests
//	                  obey: bans and allowances                  rules.go, internal/rules
//	                  checkConduct: traps, forged sessions       conduct.go
//	                  for each zone that matches:                evaluate.go
//	                    load     whether it applies at present   load.go
//	                    limits   limits that apply               limits.go
//	                    key      key of the counts               key.go, address.go, credentials.go
//	                    identify the client                      client.go, identity/client
//	                    cost     units                           cost.go
//	         readBody before units are held                      read_body.go, internal/readahead
//	         enter    places of requests under way               concurrency.go
//	         engine   all debits or none, perhaps later          delay.go, internal/engine
//	         offersChallenge to a browser that is refused        challenge.go
//	         decideShadows: each shadow limit alone              shadow.go
//	       Reporter   metrics, history, logs, events             internal/report
//	       Release
//
//	  switch on Result.Outcome
//	    Passed, Counted     next handler                         internal/answer
//	                          header fields, if counted          response.go, internal/answer
//	                          limits that count by the answer    pending.go, internal/settle
//	                          places are left                    concurrency.go
//	    Refused             429, or 403 if it costs too much     refusal.go, internal/answer
//	    Challenged          429 with a page                      challenge.go
//	    Postponed           503, often with a page               concurrency.go, stop.go
//	    TooEarly            425                                  internal/answer
//	    Denied              400, 401, 403                        internal/answer
//	    AtSessions          the page where clients earn sessions challenge.go, solution.go
//
// The commands `explain` and `replay` pass the same frame, with a [Forecast] and with the engine of a replay
// as the Decider. They describe its Verdict.
//
//	Without a decision: an error, or 499 if the client has gone.
//
// config.go has the types that a config compiles to, tenant.go and lifecycle.go its use of the
// instance. meters.go, reference.go and late.go note what others read later.
package enforce
