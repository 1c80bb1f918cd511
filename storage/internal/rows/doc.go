// Package rows keeps the history and the lists of acts for all stores that have a history: how they are
// named, encoded, added up, read and bounded. A store implements [Backend], which knows rows of bytes only.
//
// # Names
//
// A name is a letter, the number of a minute, hour, day or week, or a time, and the rest. So the rows of a kind
// are in the order of time: a query reads a range, and rows expire as ranges, without an index and without a
// time in each row (decision 172).
//
// Damaged rows are parsed as far as they make sense.
package rows
