//go:build linux

package main

import "time"

const (
	startTime  = time.Second            // that the sides of a server take to start and to stop
	settleTime = 300 * time.Millisecond // between measurements, as a rule
)

// estimate returns how long the chosen parts take, if all servers are there.
func (s *settings) estimate() (sum time.Duration) {
	b := &bench{settings: s}
	for _, part := range s.only {
		switch part {
		case "throughput":
			for _, server := range b.servers() {
				sum += s.comparison(len(server.sides)) * time.Duration(len(b.gogcOf(server))*len(s.cases))
			}
		case "shared":
			sum += s.comparison(2) * time.Duration(len(s.gogc))
		case "latency":
			sum += 2 * (startTime + 2*s.period + s.latency + s.latency/plainShare)
		case "claim":
			sum += startTime + 2*time.Second + time.Duration(2*s.repeats)*s.period
		}
	}
	return sum
}

// comparison returns how long one case of a server with some sides takes. Each side is
// warmed up in one round, as a rule.
func (s *settings) comparison(sides int) time.Duration {
	return startTime + time.Duration(sides*(s.repeats+1))*(s.period+settleTime)
}
