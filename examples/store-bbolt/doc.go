// Package bboltstore keeps the counts of a rate limiter in a bbolt database (https://go.etcd.io/bbolt), a file
// on this machine. Importing it registers the module `rate_limit.stores.bbolt`.
//
// It is an example of a store outside of caddy-tally: it uses what everybody can import. It fulfils the contract
// of [storage.Local] and leaves out what it may: periods, in which claims need no transaction, and the history
// of months.
//
// # How it works
//
//   - One writing transaction of bbolt per call. bbolt runs one at a time, so calls follow one another. A commit
//     ends with an fsync, so counts survive kill -9 and a loss of power.
//   - The time is read inside the transaction, and a call whose term doesn't hold changes nothing but the time.
//   - A row has eight bytes for the time when it expires, and JSON. So a sweep needs to know nothing of rows.
//   - A row that a call leaves as it was is not written, and a call that changes no row is not committed. So a
//     refused request costs no fsync.
//   - Only one process can open a bbolt database. All stores of the process share it: during a reload there are two.
//
// # Buckets
//
//	about     "version", "id", "mark", and "time": the [storage.TimeRecord]
//	counts    the ID of a limit and a key → the usage
//	clients   a key → the record of a client, with times as if the time had never been set
//	resets    a number → a reset
//	acts0, …  a time → an entry of a list, such as the audit
package bboltstore
