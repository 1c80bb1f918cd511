// Package routing is the one place that knows how Caddy routes requests: the handlers of a server
// and what runs before and after each ([View]), the way of a request through them ([Follow]), the
// error routes that may answer it ([AnswersErrors]), the placeholders they set ([Provided]) and those
// that this Caddy knows ([CheckPlaceholders]).
//
// It says how things are. What is wrong about them is for the checks of a config.
//
// Caddy provisions handlers in the order of execution, and error routes after the others. When the
// first of our handlers is provisioned, the earlier ones are modules, while our own, the later ones
// and the surrounding ones are still JSON. Here both become one kind of data.
//
// Whatever depends on the inside of Caddy is in this package, mostly in inside.go, and tests fail
// when it changes.
package routing
