package replay

import (
	"encoding/json"
	"io"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// WriteJSON writes the report as JSON, and escapes unprintable characters.
func (p *Report) WriteJSON(w io.Writer) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(wording.PrintableJSON(text), '\n'))
	return err
}
