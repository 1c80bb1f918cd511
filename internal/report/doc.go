// Package report reports verdicts about requests: it counts them in the metrics and for the history, and
// tells logs, events, operators who watch, and spans.
//
//	report.go        what is reported of a refusal
//	count.go         counts of requests, zones and limits
//	shadow.go        decisions of shadow limits
//	decision_log.go  lines about decisions
package report
