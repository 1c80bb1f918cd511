// Package past adds up the history for every store: which rows a report adds to, how it adds to
// them, and what a query makes of them. A store keeps the rows and implements [Keeper].
package past
