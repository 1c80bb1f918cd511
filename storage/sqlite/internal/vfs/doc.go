// Package vfs is the file system through which SQLite opens the database of a store. It is the system's, with two
// differences:
//
//   - Writes to a write-ahead log are buffered and written at the end of each commit, with one system call per
//     buffer (see logFile).
//   - A database file supports [SyncPragma] and [RestPragma], and stops no process on a disk that hangs (see mainFile).
//
// [Register] it, and name it in the URI of a database: "file:…?vfs=" + [Name].
//
// The package uses unsafe: SQLite's structures are in memory that Go doesn't manage, and their pointers are integers.
// The state of a file is in memory that SQLite allocates for it, and is used under the lock of the file's connection.
// The package has no other state than SQLite's list of file systems. It writes and syncs as SQLite requests, and
// doesn't interpret rows.
package vfs
