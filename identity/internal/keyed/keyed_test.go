package keyed

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"testing"
)

// A sum is that of the standard library over the same bytes, wherever the room
// ends.
func FuzzSum(f *testing.F) {
	f.Add([]byte("key"), []byte("fixed"), "text", uint64(1))
	f.Add(make([]byte, 100), make([]byte, 192), string(make([]byte, 184)), uint64(0))
	f.Add([]byte(nil), make([]byte, 191), "x", ^uint64(0))
	f.Fuzz(func(t *testing.T, key, part []byte, text string, n uint64) {
		mac := New(key)
		mac.Start().Bytes(part).Sum() // what was hashed before must not matter
		got := mac.Start().Number(n).Bytes(part).Text(text).Fixed(part).Sum()

		plain := hmac.New(sha256.New, key)
		length := func(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
		plain.Write(binary.BigEndian.AppendUint64(nil, n))
		plain.Write(append(length(len(part)), part...))
		plain.Write(append(length(len(text)), text...))
		plain.Write(part)
		if want := plain.Sum(nil); !bytes.Equal(got[:], want) {
			t.Errorf("got %x, want %x", got, want)
		}
	})
}

func TestRingKeepsIDs(t *testing.T) {
	old, fresh := []byte("the old key"), []byte("a new key")
	before, after := NewRing([][]byte{old}), NewRing([][]byte{fresh, old})
	if before[0].ID != after[1].ID {
		t.Error("a key has another id since there is one before it")
	}
	if after[0].ID == after[1].ID {
		t.Error("two keys have one id")
	}
}
