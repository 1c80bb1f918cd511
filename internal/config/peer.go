package config

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/stores"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// peerDuration returns the function for an option with a duration. name is the option's name in the
// error about a repetition, and kind in the error about a malformed value.
func peerDuration(field *caddy.Duration, name, kind string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		if !d.NextArg() {
			return d.ArgErr()
		}
		if *field != 0 {
			return d.Errf("%s already specified: %v", name, *field)
		}
		duration, err := caddy.ParseDuration(d.Val())
		if err != nil {
			return d.Errf("invalid %s '%s': %v: expected a duration such as 1m", kind, d.Val(), err)
		}
		*field = caddy.Duration(duration)
		return nil
	}
}

// peerInt is [peerDuration] for a whole number.
func peerInt(field *int, name, kind string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) (err error) {
		if !d.NextArg() {
			return d.ArgErr()
		}
		if *field != 0 {
			return d.Errf("%s already specified: %v", name, *field)
		}
		if *field, err = strconv.Atoi(d.Val()); err != nil {
			return d.Errf("invalid %s '%s': %v: expected a whole number", kind, d.Val(), err)
		}
		return nil
	}
}

// Distributed is accepted for compatibility with `mholt/caddy-ratelimit`.
type Distributed struct {
	// Without effect.
	ReadInterval caddy.Duration `json:"read_interval,omitempty"`
	// Without effect.
	WriteInterval caddy.Duration `json:"write_interval,omitempty"`
	// Without effect.
	PurgeAge caddy.Duration `json:"purge_age,omitempty"`
}

// checkDistributed finds the options for shared counts of mholt's module, and names their
// replacement.
func (h *handlerCompiler) checkDistributed() []advice.Advice {
	if h.Distributed == nil && h.StorageRaw == nil {
		return nil
	}
	counts, fix, several := "all machines that use this store share their counts", "neither of them", ""
	if h.Distributed != nil {
		var storage struct {
			Module string `json:"module"`
		}
		_ = json.Unmarshal(h.StorageRaw, &storage) // without one it stays empty
		several = " on one machine; for several, " + sharedStore(storage.Module)
	}
	switch store := h.app.Run.Store.(type) {
	case stores.File:
		counts, fix = "counts are kept in "+store.Place()+
			", which all Caddy processes on this machine share that use the file", fix+several
	case stores.Keyed:
		counts, fix = "counts are kept in the memory of this process", fix+several
	}
	return []advice.Advice{h.Advice("distributed and storage have no effect: "+counts, fix)}
}

// sharedStore returns the Caddyfile lines that share counts among machines, using the same system
// as a storage module of Caddy, if there is a store for it.
func sharedStore(storage string) string {
	store := "redis redis://<host>:6379"
	if strings.Contains(storage, "postgres") {
		store = "postgres postgres://<user>:<password>@<host>/<database>"
	}
	return "store " + store + " and the same secret_file on each, in the global option rate_limit"
}

// block is the syntax of `distributed`.
func (dist *Distributed) block() grammar.Block {
	return grammar.Block{Unknown: subdirective, Rules: func() grammar.Rules {
		return grammar.Rules{
			grammar.Line("read_interval <duration>", peerDuration(&dist.ReadInterval, "read interval", "read interval")).Repeats(),
			grammar.Line("write_interval <duration>", peerDuration(&dist.WriteInterval, "write interval", "write interval")).Repeats(),
			grammar.Line("purge_age <duration>", peerDuration(&dist.PurgeAge, "purge age", "purge age")).Repeats(),
		}
	}}
}
