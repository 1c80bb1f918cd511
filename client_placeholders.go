package tally

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// clientPlaceholders are the ends of the names of a client's placeholders.
var clientPlaceholders = []string{"", ".kind", ".verified", ".score", ".violations"}

// mapPlaceholders sets the client's placeholders, which are resolved when they are used.
func (c *client) mapPlaceholders(e *evaluation) {
	if c != nil && !c.mapped {
		c.mapped = true
		e.repl.Map(c.placeholder)
	}
}

// placeholder resolves `http.rate_limit.client` and what is below it.
func (c *client) placeholder(key string) (any, bool) {
	name, ours := strings.CutPrefix(key, "http.rate_limit.client")
	if !ours || !slices.Contains(clientPlaceholders, name) {
		return nil, false
	}
	e := newEvaluation(c.http)
	defer e.release()
	e.client = c
	e.identify()
	switch name {
	case ".kind":
		return c.Kind.String(), true
	case ".verified":
		return c.Kind.Verified(), true
	case ".score":
		return c.score(), true
	case ".violations":
		return c.violations(), true
	}
	return c.name(), true
}

// score returns the client's score in whole points, or nothing if it has none.
func (c *client) score() string {
	record := c.record()
	if record == nil {
		return ""
	}
	return strconv.Itoa(int(record.Score(c.app.use().Engine.Now())))
}

// toldViolations is how many of a client's last violations its placeholder has.
const toldViolations = 8

// violations returns the reasons of the client's last violations, the last one
// first.
func (c *client) violations() string {
	record := c.record()
	if record == nil {
		return ""
	}
	var reasons []string
	for _, v := range slices.Backward(record.Past[max(len(record.Past)-toldViolations, 0):]) {
		reasons = append(reasons, v.Reason.String())
	}
	return strings.Join(reasons, ", ")
}

// name returns an opaque name of the client. A verified client always has the same name, any
// other a new one each day. It is empty while there is no secret.
func (c *client) name() string {
	instance := c.app.use()
	if instance == nil {
		return ""
	}
	name, ok := instance.OpaqueName(c.Key, c.Kind.Verified())
	if !ok {
		return ""
	}
	return hex.EncodeToString(name[:])
}
