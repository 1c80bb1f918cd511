package cells

import (
	"encoding/binary"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// AppendRecord appends the encoding of a record. The zero record is encoded as no bytes.
func AppendRecord(to []byte, r reputation.Record) []byte {
	if r.At|r.Lost|r.Until|r.Counts|int64(r.Bans)|int64(r.Level) == 0 && len(r.Past) == 0 {
		return to
	}
	for _, v := range []int64{r.At, r.Lost, int64(r.Level), r.Until, int64(r.Bans), r.Counts} {
		to = binary.AppendVarint(to, v)
	}
	return r.AppendPast(to)
}

// ParseRecord decodes a record. It accepts damaged bytes, so the caller uses [reputation.Record.Clamp]
// first.
func ParseRecord(from []byte) (r reputation.Record) {
	var level, bans int64
	for _, v := range []*int64{&r.At, &r.Lost, &level, &r.Until, &bans, &r.Counts} {
		value, n := binary.Varint(from)
		if n <= 0 {
			value, n = 0, len(from)
		}
		*v, from = value, from[n:]
	}
	r.Level = reputation.Level(min(max(level, 0), int64(reputation.Critical)))
	r.Bans = int(min(max(bans, 0), 1<<30))
	r.Past = reputation.ParsePast(from)
	return r
}

// AddBanned adds an encoded record to banned, if its client is banned at now and there are fewer than
// most.
func AddBanned(banned map[storage.Key]reputation.Record, key storage.Key, from []byte, now int64, most int) {
	if r := ParseRecord(from); r.Banned(now) && len(banned) < most {
		r.Clamp(now)
		banned[key] = r
	}
}
