// Package region is the arithmetic of limits that several regions share. Each region has its own
// store, which is strict, and publishes its admitted units to the others from time to time. The
// package is pure functions of limits, counts and times, and knows no lock, clock or I/O.
//
// # Counts
//
// Admitted units are counted in groups ([Groups]): an eighth of a sliding window, a whole fixed
// window. A count of one group has one writer, a machine of a region ([Component]), and only grows.
// So a receiver keeps the largest value of each count ([Counts]), and rows that arrive twice, late
// or in another order change nothing: it is a G-counter.
//
// Units are counted when they are admitted, not when a store charges them: returned leases make
// charges smaller again.
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
//   - A region that knows of F foreign units in force admits at most as many units as raise its own
//     units to L - F, so never more than L.
//   - A region does not publish a key while it has used at most L/(4(R-1)) of it ([Publishes]), so
//     R-1 regions hide at most L/4 units from another one.
//   - So all regions together admit at most L + L/4, plus the units they admit within D.
//
// A window below [MinWindow] is too short for that: such a limit stays regional.
package region
