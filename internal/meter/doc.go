// Package meter counts events once, for Prometheus and for operators. Counters live as long as the
// process and are registered with the registry of each configuration, so that they continue after
// reloads. Their labels are the names of zones and limits. So their number depends on the
// configurations, not on clients.
package meter
