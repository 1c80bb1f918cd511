package slab

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
)

// After any sequence of operations each record has the bytes that were put last, and the sizes add
// up.
func TestRecordsStayAsTheyWerePut(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var s Slab
	want := make(map[Ref][]byte)
	var refs []Ref
	for range 200_000 {
		i := r.IntN(5000)
		if i >= len(refs) {
			refs = append(refs, 0)
			i = len(refs) - 1
		}
		if r.IntN(3) == 0 {
			s.Free(refs[i])
			delete(want, refs[i])
			refs[i] = 0
			continue
		}
		data := make([]byte, r.IntN(1<<r.IntN(9)))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		if r.IntN(20_000) == 0 {
			data = append(data, make([]byte, 5*blockBytes)...)
		}
		delete(want, refs[i])
		refs[i] = s.Put(refs[i], data)
		if want[refs[i]] != nil {
			t.Fatalf("record %d is there twice", refs[i])
		}
		want[refs[i]] = append([]byte{}, data...)
	}
	taken := int64(0)
	for ref, data := range want {
		taken += int64(ref.Size())
		if got := s.Get(ref); !bytes.Equal(got[:len(data)], data) || len(got) != ref.Size() {
			t.Errorf("record %d is %x, want %x", ref, got, data)
		}
	}
	if s.Bytes() != taken {
		t.Errorf("%d bytes are said to be taken, the records take %d", s.Bytes(), taken)
	}
}

func TestClasses(t *testing.T) {
	for class := range classes {
		if size := sizeOf(class); classFor(size) != class || classFor(size-1) != class || class > 0 && size <= sizeOf(class-1) {
			t.Errorf("class %d has records of %d bytes", class, size)
		}
	}
	if largest := sizeOf(classes - 1); largest < maxRecord {
		t.Errorf("the largest records have %d bytes", largest)
	}
}

// Memory without records is given back, and reused later.
func TestMemoryIsGivenBack(t *testing.T) {
	var s Slab
	before := heap()
	for range 2 {
		refs := make([]Ref, 1_000_000)
		for i := range refs {
			refs[i] = s.Put(0, make([]byte, 16))
		}
		if more := heap() - before; more < 16_000_000 {
			t.Fatalf("a million records take %d bytes: the test measures nothing", more)
		}
		for _, ref := range refs {
			s.Free(ref)
		}
		if left := heap() - before; left > 1<<20 || s.Bytes() != 0 {
			t.Errorf("%d bytes are left, of which records take %d", left, s.Bytes())
		}
	}
	runtime.KeepAlive(&s)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
