// Package placeholder finds the placeholders in a text of a config, and checks that
// something in this Caddy can provide them. For a name that nothing provides it suggests
// the one that was probably meant.
package placeholder
