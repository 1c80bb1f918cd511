// Package placeholder finds the placeholders in a text of a config, and checks that a module of
// this Caddy can provide them. For an unknown name it suggests a similar known one.
package placeholder
