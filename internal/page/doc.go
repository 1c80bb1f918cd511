// Package page has the page that a refused request is answered with, and what the pages for
// visitors share: whose site it is, and the Content-Security-Policy of their own scripts.
//
// Nothing on a page comes from a request: its language is one of a table, and everything else is
// the operator's, a time, or a reference that was made here.
package page
