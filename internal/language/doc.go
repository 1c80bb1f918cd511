// Package language has what pages for visitors say, in ten languages, and chooses the language
// that a browser asks for. It knows no HTTP and no HTML.
package language
