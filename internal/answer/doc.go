// Package answer writes answers: the header fields and placeholders about limits, refusals and denials
// as pages, lines of text or problem details, and what is handed to error routes. It is given values;
// it knows no zones, clients or decisions.
//
//	response.go    the fields and placeholders of an answer
//	writer.go      the writer that later handlers get
//	refuse.go      the answers to requests that don't pass
//	page.go        pages for browsers
//	short.go       lines of text and problem details
//	one_client.go  what keeps caches from storing answers for one client
package answer
