// Package replayer makes the handlers of a config decide about the requests of an access log, at
// their times. The life of a line:
//
//	requests.of      a request, as a server would have received it      request.go
//	judge.Judge      the servers that may have received it, in turn     judge.go
//	judge.decide     the decision of each handler: internal/enforce
//	replay.Run       counts, reports, other limits: internal/replay
//
// The handlers decide, because a model of what they do would be wrong sooner or later (decision 96). The config is
// provisioned but not started: see [Load].
package replayer
