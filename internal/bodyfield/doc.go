// Package bodyfield finds fields in bodies: those of forms and of JSON in requests, as every backend may
// read them, and those of JSON in answers, while these are sent (decision 158). It doesn't know what the values are
// for.
package bodyfield
