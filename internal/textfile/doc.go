// Package textfile reads text files that people and commands change while they are in use, and
// replaces them.
//
// # Invariants
//
//   - A file is accepted as a whole or not at all: after an invalid line the previous content stays
//     in force.
//   - [Edit] replaces a file as a whole. A reader, and a process that starts after a crash, finds
//     the old text or the new one, never a part of it.
//   - Concurrent edits, by any processes of one machine, each start from the result of the one
//     before.
//   - A file that Edit writes is readable for its owner only.
package textfile
