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
//	         collect  statement: bans and allowances             statement.go, internal/rules
//	                  checkConduct: traps, forged sessions       conduct.go
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
//	                        limits that count by status          pending.go
//	    refused             429, or 403 if it costs too much     refuse.go
//	    challenged          429 with a page                      challenge_offer.go
//	    tooEarly            425                                  refuse.go
//	    denied, abandoned   400, 401, 403, 499                   refuse.go
//
// # Read in this order
//
// A file mostly uses files that come after it, and never one that uses it in turn.
//
// The handler:
//
//   - module.go: [Handler] with its options
//   - handler.go: Provision, ServeHTTP and Cleanup
//
// How a request is decided:
//
//   - evaluate.go, outcome.go: the way from a request to a result
//   - statement.go: what operators have stated about it
//   - limits.go, counting_key.go, host_key.go: which limits hold, and what is counted by
//   - shadow.go, shadow_verdicts.go: what limits would refuse that are not enforced
//   - conduct.go, report.go, squeeze.go: violations, logs and events, crowded networks
//   - decision_log_lines.go, access_log.go, trace.go: what logs and traces hold of decisions
//
// How it is answered:
//
//   - challenge_offer.go, challenge_serve.go, challenge_accept.go, challenge_page.go,
//     challenge_exchange.go: the page that lets a browser earn a session
//   - refuse.go, response.go, response_legacy.go, texts.go, limit_status.go: refusals and
//     header fields
//   - pending_debits.go, pending.go, settled.go, read_body.go, count.go: limits that count by the status of the answer
//   - refused_page.go, html_answer.go, error_routes.go, navigation.go: the page for browsers, where
//     no route handles the error
//   - refusal_reference.go, refusal_recent.go, refusal.go: why a request is refused, its reference,
//     and recent refusals
//
// Who it is from:
//
//   - begin.go, client_placeholders.go, client_record.go, identify.go: values that
//     identity/client needs, and what is known of the client
//   - authenticate.go, api_key_search.go, denial.go: API keys and service headers
//   - session_cookie.go, session_keys.go: sessions
//   - evaluation.go, shadow_debits.go, client.go, claimed.go, client_ip.go: what a request carries on its way
//
// The engine, its store and its secrets, across reloads:
//
//   - app_decide.go, app_instance.go: how a config uses an engine
//   - dashboard.go, dashboard_door.go: the handler that shows people what operators see
//   - admin.go, operator.go, operator_stores.go, operator_history.go, operator_zones.go,
//     operator_watchers.go, operator_refusals.go, metrics_register.go, metrics_network.go,
//     metrics_regions.go: what operators are shown, and can do
//   - operator_keys.go, operator_bans.go, operator_orders.go: lists, and bans and allowances
//   - operator_explain.go, operator_forecast.go, operator_explainer.go: what they know of a
//     client, and what its next request gets
//   - operator_reset.go, operator_target.go: how they let it in again
//   - statements_shared.go, statements.go: changes of operators' statements
//   - instance_region.go: how counts are shared with other regions
//   - instance_open.go, instance_keys.go, instance_vault.go: the engine itself
//   - instance_statements.go, instance.go: statements in a store that machines share
//   - audit.go, history.go, instance_history.go, ledgers.go: what is kept of what is decided
//
// The grammar, a function per block, and the command line:
//
//   - caddyfile.go, caddyfile_app.go, caddyfile_zone.go, caddyfile_client.go,
//     caddyfile_dashboard.go, caddyfile_decision_log.go, caddyfile_tier.go, caddyfile_reputation.go,
//     caddyfile_region.go, caddyfile_count.go, caddyfile_limit.go, caddyfile_page.go, caddyfile_peer.go, caddyfile_rate.go, caddyfile_store.go,
//     caddyfile_matchers.go
//   - command.go, command_replay.go, command_dashboard.go, command_version.go, command_key.go,
//     command_unknown.go, command_tiers.go, command_connect.go
//
// How a log is replayed (internal/accesslog reads it, internal/replay counts and reports):
//
//   - replay_page.go, replay_judge.go, replay_request.go, replay_needs.go, replay_clock.go, replay_memory.go,
//     replay_config.go, replay_address.go
//
// What a config becomes:
//
//   - app_provision.go, rules.go: the global options, the file of bans and allowances
//   - statements_in_force.go, shared_statements.go: those of the file and of the store
//   - zone_provision.go, shadow_zone.go, limit_set.go, ceiling.go, cost.go: zones
//   - check_costs.go, check_distributed.go, check_keys.go, check_late.go, check_names.go, check_idle.go,
//     check_order.go, check_order_sets.go, check_outcome.go, check_plain_http.go,
//     check_proxies.go, check_regions.go, checks.go, check_reach.go, check_limits.go, need.go, survey_routes.go: warnings of what hardly does what was meant
//
// The options, with the comments that are their documentation:
//
//   - trap.go, app.go, page.go, session.go, challenge.go, pressure.go, api_keys.go, reputation.go,
//     decision_log.go
//   - store_memory.go, store_sqlite.go, store_siting.go, store.go, region.go
//   - zone_setup.go, survey.go, scope.go, policy.go, zone_form.go, zone.go, ban.go, tier.go,
//     limit.go
//
// What all of them use:
//
//   - matchers.go, check_matchers.go, spelling.go, unambiguous.go, endpoint.go,
//     original_request.go: matchers that no spelling of a request gets around
//   - caddyfile_words.go, caddyfile_values.go: words and values of the grammar
//   - challenge_limits.go, refusal_log.go, per_second.go, metrics_meters.go, metrics_read.go,
//     metrics.go, diagnostics.go, version.go
//
// A config that is only looked at, or that is rejected, opens, makes and changes nothing:
// the store opens when the whole config has started.
//
// # Glossary
//
//   - zone: a class of requests, and what it is counted per
//   - limit: an amount of units in a window
//   - key: what a zone counts by; its first byte, the tag, tells its kind
//   - pending: of a request that is let through it is not known yet whether it uses up units;
//     settled: it is
//   - held: charged when the request comes, and given back if it doesn't count
//   - unit: what is counted; a request costs 1 unless a zone says otherwise
//   - evaluation: one request on its way to a decision
//   - debit: what a request takes from one limit.
//   - statement: a ban or an allowance by an operator, a line of a file
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
//   - banned: refused for violations, remembered on disk, or by a statement
//   - shadow: a shadow limit counts as if it was enforced, and refuses nothing
//   - degraded: the store can't be used, and memory decides with reduced limits
//   - instance: an engine with its store and secrets, shared by configs across reloads
package tally
