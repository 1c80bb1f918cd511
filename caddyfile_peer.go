package tally

import (
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// peerDuration reads the option's argument into field. The option is called name
// when it is repeated and kind when it is malformed.
func peerDuration(d *caddyfile.Dispenser, field *caddy.Duration, name, kind string) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	if *field != 0 {
		return d.Errf("%s already specified: %v", name, *field)
	}
	duration, err := caddy.ParseDuration(d.Val())
	if err != nil {
		return d.Errf("invalid %s '%s': %v: write %s", kind, d.Val(), err, guessWindow(strings.Join(append([]string{d.Val()}, d.RemainingArgs()...), " ")))
	}
	*field = caddy.Duration(duration)
	return nil
}

// peerInt reads the option's argument into field, with names as for
// [peerDuration].
func peerInt(d *caddyfile.Dispenser, field *int, name, kind string) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	if *field != 0 {
		return d.Errf("%s already specified: %v", name, *field)
	}
	n, err := strconv.Atoi(d.Val())
	if err != nil {
		return d.Errf("invalid %s '%s': %v: write a whole number such as 5", kind, d.Val(), err)
	}
	*field = n
	return nil
}

func (dist *Distributed) unmarshal(d *caddyfile.Dispenser) error {
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := dist.unmarshalOption(d); err != nil {
			return err
		}
	}
	return nil
}

func (dist *Distributed) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "read_interval":
		return peerDuration(d, &dist.ReadInterval, "read interval", "read interval")
	case "write_interval":
		return peerDuration(d, &dist.WriteInterval, "write interval", "write interval")
	case "purge_age":
		return peerDuration(d, &dist.PurgeAge, "purge age", "purge age")
	}
	return d.Errf("unrecognized subdirective '%s': expected read_interval, write_interval or purge_age", d.Val())
}
