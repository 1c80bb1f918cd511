// Package textfile reads text files that people and commands change while they are in
// use, and replaces them.
//
// # Invariants
//
//   - A file is taken as a whole or not at all: one bad line leaves in force what was.
//   - [Edit] replaces a file as a whole. A reader, and whoever starts after a crash, finds
//     the old text or the new one, never a part of it.
//   - Of several edits at once, by any processes of one machine, each starts from the
//     result of the one before it.
//   - A file that Edit writes is readable for its owner only.
package textfile
