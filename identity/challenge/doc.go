// Package challenge checks that a page is opened in a browser: it sets a puzzle that takes a browser one to a few
// seconds, and has the page that solves it.
//
// # Puzzle
//
// 60 bytes in base64url, 80 characters:
//
//	version 1 | key 4 | expires 4 | difficulty 1 | nonce 18 | HMAC-SHA-256 32
//
// The HMAC covers all fields before it, the site and the client's network. The solution is 16 different numbers of 64
// bits. For each of them, the SHA-256 of the 80 characters and the number, big endian, begins with a number of zero
// bits that is the difficulty less 4. Solving takes 2 to the power of the difficulty tries on average, rarely more than
// one and a half times as many; checking takes 16. Below a difficulty of 5 fewer numbers with one zero bit suffice.
// Version 1 was solved by one number.
//
// Version 3 is for browsers without JavaScript, where that is allowed. It has no solution: the browser submits it after
// the time in the field "expires", within two minutes.
//
// # Invariants
//
//   - No state of a puzzle is kept until it is solved. The caller of Check keeps its nonce until it expires, so
//     that it is accepted only once (decision 22).
//   - A puzzle is valid for its site and network, until it expires, and at its difficulty.
//   - The page loads nothing, and only submits its form. Its only script is its own, which the
//     Content-Security-Policy allows by its hash.
//   - The page never redirects to another site: see [Target].
package challenge
