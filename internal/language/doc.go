// Package language has the texts of pages for visitors, in ten languages, and chooses the language
// that a browser prefers. It knows no HTTP and no HTML.
package language
