// Package challenge has a browser show that a page is looked at: it sets a
// puzzle that takes a browser a second or a few, and has the page that solves it.
//
// # Puzzle
//
// 60 bytes in base64url, 80 characters:
//
//	version 1 | key 4 | expires 4 | difficulty 1 | nonce 18 | HMAC-SHA-256 32
//
// The HMAC is over all that is before it, the site and the client's network. It
// is solved by 16 different numbers of 64 bits, for each of which the SHA-256 of the 80
// characters and the number, big endian, begins with 4 zero bits less than the
// difficulty says. That takes 2 to the power of the difficulty tries on average, seldom
// more than one and a half times as many, and 16 to check. Below a difficulty of 5
// fewer numbers of one zero bit do. Version 1 was solved by one number.
//
// Version 3 is for browsers without JavaScript, where that is allowed: nothing solves it. It is
// handed in from the time on that stands in the place of "expires", for two minutes.
//
// # Invariants
//
//   - Nothing is kept of a puzzle until it is solved. Who checks one keeps its
//     nonce until it expires, to accept it once.
//   - A puzzle is good for the site and network that it was set for, until it
//     expires, and at the difficulty it was set with.
//   - The page loads nothing and talks to nobody but where its form goes. It has
//     no script but its own, under a Content-Security-Policy that allows that one
//     by its hash.
//   - Nobody is sent away from the site: see [Target].
package challenge
