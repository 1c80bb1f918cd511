package tally

import (
	"encoding/json"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/stores"
)

// warnOfDistributed warns of the options that mholt's module shares counts by, and says
// what shares them here.
func (h *Handler) warnOfDistributed() {
	if h.Distributed == nil && h.StorageRaw == nil {
		return
	}
	const problem = "distributed and storage have no effect: "
	switch store := h.app.run.Store.(type) {
	case stores.File:
		h.warn(problem+"counts are kept in "+store.Place()+", which all Caddy processes on this machine share that use the file", h.insteadOfStorage())
	case stores.Keyed:
		h.warn(problem+"counts are kept in the memory of this process", h.insteadOfStorage())
	default:
		h.warn(problem+"all machines that use this store share their counts", "neither of them")
	}
}

// insteadOfStorage returns what to write in the place of both options.
func (h *Handler) insteadOfStorage() string {
	if h.Distributed == nil {
		return "neither of them"
	}
	var storage struct {
		Module string `json:"module"`
	}
	_ = json.Unmarshal(h.StorageRaw, &storage) // without one there is none
	return "neither of them on one machine; for several, " + sharedStore(storage.Module)
}

// sharedStore returns the lines by which several machines share counts, on the system that a
// module for Caddy's storage uses, if there is a store for that.
func sharedStore(storage string) string {
	store := "redis redis://<host>:6379"
	if strings.Contains(storage, "postgres") {
		store = "postgres postgres://<user>:<password>@<host>/<database>"
	}
	return "store " + store + " and the same secret_file on each, in the global option rate_limit"
}
