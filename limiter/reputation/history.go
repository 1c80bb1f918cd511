package reputation

import "encoding/binary"

// recorded is the length of one violation as bytes.
const recorded = 8 + 4 + 1

// AppendPast appends the violations of a record as bytes: the time, the zone and the reason of
// each, big-endian.
func (r *Record) AppendPast(to []byte) []byte {
	for _, v := range r.Past {
		to = binary.BigEndian.AppendUint64(to, uint64(v.At))
		to = binary.BigEndian.AppendUint32(to, v.Zone)
		to = append(to, byte(v.Reason))
	}
	return to
}

// ParsePast returns the violations written by [Record.AppendPast], the last [MaxPast] of them.
// Extra bytes at the end are ignored.
func ParsePast(from []byte) []Violation {
	n := len(from) / recorded
	if n == 0 {
		return nil
	}
	past := make([]Violation, 0, min(n, MaxPast))
	for i := max(n-MaxPast, 0); i < n; i++ {
		b := from[i*recorded:]
		past = append(past, Violation{
			At:     int64(binary.BigEndian.Uint64(b)),
			Zone:   binary.BigEndian.Uint32(b[8:]),
			Reason: Reason(b[12]),
		})
	}
	return past
}
