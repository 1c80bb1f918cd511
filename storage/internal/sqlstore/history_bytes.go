package sqlstore

import (
	"encoding/binary"

	"github.com/caddy-tally/caddy-tally/storage"
)

// States of the history begin with the series: two texts, each after its length. Damaged ones are
// read as far as they make sense.

func (p *point) append(to []byte) []byte {
	to = appendTexts(to, p.Series)
	for _, n := range p.numbers() {
		to = binary.AppendVarint(to, *n)
	}
	return append(to, p.sketch...)
}

func parsePoint(from []byte) (p point) {
	from = parseTexts(from, &p.Series)
	for _, n := range p.numbers() {
		from = parseNumber(from, n)
	}
	p.sketch = from
	return p
}

func (p *point) numbers() []*int64 {
	return []*int64{&p.Allowed, &p.Refused, &p.Blocked, &p.Banned, &p.WouldRefuse, &p.Units}
}

func (h *heavies) append(to []byte) []byte {
	to = appendTexts(to, h.Series)
	for _, k := range h.keys {
		to = append(to, k.Key[:]...)
		to = binary.AppendVarint(to, k.Units)
		to = binary.AppendVarint(to, k.Refused)
	}
	return to
}

func parseHeavies(from []byte) (h heavies) {
	from = parseTexts(from, &h.Series)
	for len(from) > len(storage.Key{}) {
		var k storage.HeavyKey
		from = from[copy(k.Key[:], from):]
		from = parseNumber(from, &k.Units)
		from = parseNumber(from, &k.Refused)
		h.keys = append(h.keys, k)
	}
	return h
}

func appendTexts(to []byte, s storage.Series) []byte {
	for _, text := range []string{s.Zone, s.Limit} {
		to = append(binary.AppendUvarint(to, uint64(len(text))), text...)
	}
	return to
}

func parseTexts(from []byte, s *storage.Series) (rest []byte) {
	for _, text := range []*string{&s.Zone, &s.Limit} {
		length, n := binary.Uvarint(from)
		if n <= 0 || length > uint64(len(from)-n) {
			return nil
		}
		*text, from = string(from[n:n+int(length)]), from[n+int(length):]
	}
	return from
}

func parseNumber(from []byte, to *int64) (rest []byte) {
	value, n := binary.Varint(from)
	if n <= 0 {
		return nil
	}
	*to = value
	return from[n:]
}
