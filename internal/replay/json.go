package replay

import (
	"io"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// WriteJSON writes the report as JSON, and escapes unprintable characters.
func (r *Report) WriteJSON(w io.Writer) error { return wording.WriteJSON(w, r) }
