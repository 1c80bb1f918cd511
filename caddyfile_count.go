package tally

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
)

// unmarshalCount reads which requests use up units.
func (z *Zone) unmarshalCount(d *caddyfile.Dispenser) error {
	if z.Count != nil {
		return d.Errf("count already specified: status %v", z.Count)
	}
	count, err := parseCounted(d.RemainingArgs())
	if err != nil {
		return d.Errf("count: %w", err)
	}
	z.Count = count
	return nil
}

// parseCounted parses what stands behind the word `count`.
func parseCounted(words []string) (*Count, error) {
	const write = "write count status 401 403"
	switch {
	case len(words) == 0:
		return nil, fmt.Errorf("it lacks the statuses with which a request counts: %s", write)
	case words[0] == "hold":
		return nil, fmt.Errorf("hold is for what counts only with some statuses: write count status 401 hold")
	case words[0] != "status" && isStatus(words[0]):
		return nil, fmt.Errorf("the word status is missing: write count status %s", strings.Join(words, " "))
	case words[0] != "status":
		return nil, fmt.Errorf("unknown word %q: %s", words[0], write)
	}
	words = words[1:]
	c := new(Count)
	if i := slices.Index(words, "read_body"); i >= 0 {
		var err error
		if c.ReadBody, err = parseReadBody(words[i+1:]); err != nil {
			return nil, err
		}
		words = words[:i]
	}
	if i := slices.Index(words, "hold"); i >= 0 {
		if i < len(words)-1 {
			return nil, fmt.Errorf("hold stands last: write count status %s hold", strings.Join(slices.Delete(slices.Clone(words), i, i+1), " "))
		}
		c.Hold, words = true, words[:i]
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("status lacks its values: %s", write)
	}
	for _, word := range words {
		status, ok := parseStatus(word)
		if !ok && strings.Contains(word, ",") {
			return nil, fmt.Errorf("got %q, but "+matcher.NoCommas+" write count status %s", strings.Join(words, " "), strings.Join(strings.FieldsFunc(strings.Join(words, " "), func(c rune) bool { return c == ',' || c == ' ' }), " "))
		}
		if !ok {
			return nil, fmt.Errorf("status: expected one from 200 to 599, or a class from 2xx to 5xx, got %q", word)
		}
		c.Status = append(c.Status, status)
	}
	return c, c.check()
}

// parseReadBody parses what stands behind the word `read_body`.
func parseReadBody(words []string) (int64, error) {
	switch len(words) {
	case 0:
		return enforce.DefaultReadBody, nil
	case 1:
		if size, err := humanize.ParseBytes(words[0]); err == nil && size > 0 && size <= enforce.MaxReadBody {
			return int64(size), nil
		}
	}
	return 0, fmt.Errorf("read_body: must be one size from 1B to 1MiB, got %q: write hold read_body 64KiB", strings.Join(words, " "))
}

// parseStatus parses a status such as 401, or a class of them such as 4xx.
func parseStatus(word string) (status int, ok bool) {
	if class, isClass := strings.CutSuffix(strings.ToLower(word), "xx"); isClass && len(class) == 1 {
		word = class
	} else if len(word) != 3 {
		return 0, false
	}
	status, err := strconv.Atoi(word)
	return status, err == nil && (status >= 2 && status <= 5 || status >= 200 && status <= 599)
}

func isStatus(word string) bool {
	_, ok := parseStatus(word)
	return ok
}
