package tally

import "strings"

// texts makes short strings of bytes, many of them in one allocation. The zero value is ready
// for use. It must not be copied. A string that is kept keeps up to textsRoom bytes in memory.
type texts struct{ room strings.Builder }

// textsRoom is how many bytes are allocated at a time, about twenty header fields.
const textsRoom = 512

// of returns the bytes as a string. What comes later doesn't change it: it is written behind.
func (t *texts) of(b []byte) string {
	if len(b) > t.room.Cap()-t.room.Len() {
		t.room.Reset() // gives up the room, which the strings in it still have
		t.room.Grow(max(textsRoom, len(b)))
	}
	from := t.room.Len()
	t.room.Write(b)
	return t.room.String()[from:]
}
