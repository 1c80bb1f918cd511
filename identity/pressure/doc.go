// Package pressure finds networks with too many different clients, most likely scripts that invent a new
// User-Agent for every request. The caller decides what follows from it.
//
// # Invariants
//
//   - Sets are exact: a network is under pressure when more different fingerprints than allowed came
//     within ten minutes, never because of an estimate.
//   - Memory is bounded: a set has at most MaxFingerprints + 1 members, and there are at most maxNetworks sets.
//   - Results depend only on the calls and the times in them. It reads no clock, file or store.
package pressure
