//go:build !linux

package engine

import "github.com/caddy-tally/caddy-tally/storage"

// bootSource names the clock of this process: there is none here that is known to
// be the same for others.
func bootSource() (source storage.Source, shared bool) { return privateSource(), false }

func bootTime() int64 { return 0 }
