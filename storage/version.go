package storage

// Readable reports whether a program can use data of a later version than its own, from the two
// numbers that each store keeps beside its data: the version of the newest program that has opened it,
// and the oldest version whose programs still understand it. So machines of two versions can share a
// store: a new version first only adds to the data, and leaves the second number as it is. The release
// after it may raise it, once no machine has the old program any more.
func Readable(program, version, oldest int64) bool { return version <= program || oldest <= program }
