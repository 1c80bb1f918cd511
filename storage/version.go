package storage

// Readable reports whether a program can use data, which may be of a later version. Each store keeps two numbers
// beside its data: the version of the newest program that has opened it, and the oldest version whose programs
// still understand it. So machines with two versions can share a store: a new version first only adds to the
// data, and keeps the second number. The next release may raise it, once no machine has the old program.
// TestMixedVersions in caddytest runs such a version beside this one.
func Readable(program, version, oldest int64) bool { return version <= program || oldest <= program }
