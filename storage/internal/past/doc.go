// Package past computes the history for all stores: the rows that a report changes, their new counts,
// and the answers to queries. A store implements [Keeper], which stores the rows.
package past
