// Package region is the arithmetic of limits that several regions share. Each region has a
// store of its own, which is strict, and tells the others from time to time what it has
// admitted. It is pure functions of limits, counts and times, and knows no lock, clock or I/O.
//
// # Counts
//
// What is admitted is counted in groups ([Groups]): an eighth of a sliding window, a whole
// fixed window. A count of one group has one writer, a machine of a region ([Component]), and
// only grows. So a receiver takes the largest value that it has seen of each ([Counts]), and
// rows that arrive twice, late or in another order change nothing: it is a G-counter.
//
// Units are counted when they are admitted, not when a store charges them: leases that are given
// back make charges smaller again.
//
// # Foreign units
//
// The units that other regions admitted in groups that still count are in force. A sliding or
// fixed limit is lowered by them, for as long as they are in force; the oldest group counts
// whole. A token bucket has no window, so the growth of the foreign units is charged to the
// bucket of the region, once.
//
// # Bounds
//
// Let L be the amount, and R regions of one machine each publish and collect within a time D.
//
//   - A region that knows of F foreign units in force admits no more than brings its own units
//     above L - F, so never more than L.
//   - A region does not publish a key while it has used at most L/(4(R-1)) of it ([Publishes]),
//     so what R-1 regions hide from another is at most L/4.
//   - So all regions together admit at most L + L/4, and what they admit within D.
//
// A window below [MinWindow] is too short for that: such a limit stays regional.
package region
