package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/blocklist"
	"github.com/caddy-tally/caddy-tally/internal/stores"
)

// BlockList is a list of addresses that others publish: one address or network per line, which `#`
// or `;` and a comment may follow. Its clients are banned, unless a line of the rules file says
// otherwise. Private, loopback and other special addresses are never banned, nor is a network wider
// than a /8 (IPv6: /19).
//
// The last good version stays in force until there is a better one, also over restarts. Lines that
// are no addresses are logged and left out.
type BlockList struct {
	// A path, or a URL with https (http to the machine itself). Required.
	Source string `json:"source,omitempty"`

	// How often it is read again, up to a tenth sooner or later; of a URL at least 1m, of a path at
	// least 1s. Default: 1h, of a path 10s.
	Every caddy.Duration `json:"every,omitempty"`

	// How long a ban lasts after the list was last read, at least as long as `every`. Default:
	// until the list doesn't have it any more.
	Ban caddy.Duration `json:"ban,omitempty"`
}

// maxBlockLists bounds the memory of lists, and what each request looks at.
const maxBlockLists = 8

// compileBlockLists opens the lists. Nothing is fetched yet.
func (c *Compiler) compileBlockLists() error {
	for _, b := range c.BlockLists {
		o, err := b.options() // which was checked
		if err == nil {
			var list *blocklist.List
			if list, err = blocklist.Acquire(o, startsCaddy()); err == nil {
				c.Run.BlockLists = append(c.Run.BlockLists, list)
			}
		}
		if err != nil {
			return fmt.Errorf("block_list: %w", err)
		}
	}
	return nil
}

// startsCaddy reports whether Caddy is starting, rather than checking a config or loading another
// one. A list that somebody else writes must not keep it from starting.
func startsCaddy() bool {
	return len(os.Args) > 1 && os.Args[1] == "run" && caddy.ActiveContext().Context == nil
}

// checkBlockLists returns an error about the first option that is out of its range.
func (a *App) checkBlockLists() error {
	if len(a.BlockLists) > maxBlockLists {
		return fmt.Errorf("block_list: expected at most %d, got %d: join some into one file", maxBlockLists,
			len(a.BlockLists))
	}
	for _, b := range a.BlockLists {
		if _, err := b.options(); err != nil {
			return fmt.Errorf("block_list: %w", err)
		}
	}
	return nil
}

// options checks the options, and returns them with their defaults.
func (b *BlockList) options() (o blocklist.Options, err error) {
	if b == nil || b.Source == "" {
		return o, errors.New("expected a path or a URL")
	}
	if !strings.ContainsAny(b.Source, `/\.`) || isAddress(b.Source) || isNetwork(b.Source) {
		return o, fmt.Errorf("expected a path or a URL of a list of addresses, got %q", b.Source)
	}
	o = blocklist.Options{
		Source: b.Source, Every: time.Duration(b.Every), Ban: time.Duration(b.Ban),
		Folder: filepath.Join(caddy.AppDataDir(), stores.DefaultFolder, "lists"),
	}
	usual, least := 10*time.Second, time.Second
	if blocklist.IsURL(b.Source) {
		usual, least = time.Hour, time.Minute
		err = blocklist.CheckURL(b.Source)
	}
	o.Every = cmp.Or(o.Every, usual)
	switch {
	case err != nil:
	case o.Every < least:
		err = fmt.Errorf("every: must be at least %v for this list, got %v", least, o.Every)
	case o.Ban != 0 && o.Ban < o.Every:
		err = fmt.Errorf(
			"ban: must be at least as long as every (%v), so that bans don't end before the list is read again, got %v", o.Every, o.Ban)
	}
	return o, err
}
