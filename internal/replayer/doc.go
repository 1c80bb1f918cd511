// Package replayer decides about the requests of an access log as the handlers of a config would
// have, at their times. The life of a line:
//
//	requests.of      a request, as a server would have received it      request.go
//	judge.Judge      the servers that may have received it, in turn     judge.go
//	judge.decide     what each handler decides: internal/enforce
//	replay.Run       counts, reports, other limits: internal/replay
//
// A config that replays is provisioned and not started: see [Load].
package replayer
