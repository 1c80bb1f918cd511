// Package page has the page for a refused request, and the common parts of the pages for visitors:
// the site, and the Content-Security-Policy of their own scripts.
//
// No text on a page comes from a request: its language is one of a table, and everything else is
// the operator's, a time, or a reference that was made here.
package page
