package tally

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// unmarshalPage reads `page off` or a block, into an option that wasn't given before.
func unmarshalPage(d *caddyfile.Dispenser, to **Page) error {
	if *to != nil {
		return d.Err("page is given twice: write it once")
	}
	p := new(Page)
	*to = p
	switch args := d.RemainingArgs(); {
	case len(args) == 1 && args[0] == "off":
		p.Disabled = true
		return nil
	case len(args) > 0:
		return d.Errf("page: expected off or a block, got %q", args[0])
	}
	return caddyconf.EachChecked(d, p.unmarshalOption, p.provision)
}

func (p *Page) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "name":
		return caddyconf.String(d, &p.Name)
	case "contact":
		return caddyconf.String(d, &p.Contact)
	}
	return d.Errf("page: unrecognized option %q: expected name or contact", d.Val())
}
