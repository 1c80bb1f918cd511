// Package meter counts events once, for Prometheus and for operators. Counters are kept for the life of the
// process and registered with the registry of each configuration, so that counts go on over reloads.
// Their labels are the names of zones and limits: as many series as the configurations have had of
// them, whatever clients do.
package meter
