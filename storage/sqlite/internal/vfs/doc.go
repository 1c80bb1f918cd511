// Package vfs is the file system that a store's SQLite opens its database
// through: the system's, with two differences.
//
//   - Writes to a write-ahead log are gathered and written at the end of each
//     commit, in one system call for as much as a buffer holds (see logFile).
//   - A database file answers [SyncPragma] and [RestPragma] (see mainFile).
//
// [Register] it, and name it in the URI of a database: "file:…?vfs=" + [Name].
//
// The package uses unsafe: SQLite's own structures lie in memory that Go does
// not manage, and are reached through pointers that are integers. Everything
// that is kept per file lies in memory that SQLite allocates for that file, and
// is used under the lock of the file's connection; the package has no state but
// SQLite's list of file systems. It writes and syncs what SQLite asks it to, and
// neither reads nor decides anything about rows.
package vfs
