package tally

import "github.com/caddyserver/caddy/v2"

// placeholders returns the names of the placeholders in s as Caddy finds them,
// in order, repeated ones repeated.
func placeholders(s string) []string {
	var names []string
	// Caddy's own scan, so that escapes and unbalanced braces mean what they will
	// mean when a request comes.
	_, _ = caddy.NewEmptyReplacer().ReplaceFunc(s, func(name string, _ any) (any, error) {
		names = append(names, name)
		return nil, nil
	})
	return names
}
