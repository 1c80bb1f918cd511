//go:build !linux

package clock

import "github.com/caddy-tally/caddy-tally/storage"

// bootSource returns the identity of the clock of this process: no clock here is known to be the
// same for other processes.
func bootSource() (source storage.Source, shared bool) { return privateSource(), false }

func bootTime() int64 { return 0 }
