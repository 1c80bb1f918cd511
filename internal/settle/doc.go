// Package settle settles what a request has used: its debits from limits that count by the answer's
// status, or by a measure that is known when the request ends. Until then the units are charged, held
// or only examined. It is given the debits and sees the answer; it knows no zones, clients or decisions.
package settle
