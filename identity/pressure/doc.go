// Package pressure notices networks from which too many different clients come:
// a script that invents a new User-Agent for every request, most likely. What
// that means for them is for others to say.
//
// # Invariants
//
//   - Sets are exact: a network is under pressure when more than so many different
//     fingerprints came within so long, and never by a guess.
//   - Memory is bounded, whoever comes: a set has at most MaxFingerprints + 1
//     members, and there are at most so many sets as a Tracker was made for.
//   - It is a function of its calls and the times they come with. It reads no
//     clock, no file and no store.
package pressure
