//go:build linux

package journal

import "testing"

// BenchmarkAdd adds records, and has them written over when the journal is full.
func BenchmarkAdd(b *testing.B) {
	add := func(b *testing.B, j *Journal, n int) {
		r := Record{Limit: 1, N: [4]int64{int64(n)}}
		for !j.Add(r) {
			if err := j.Err(); err != nil {
				b.Error(err)
				return
			}
			j.Free(j.Newest() - 1)
		}
	}
	b.Run("one", func(b *testing.B) {
		j := benchmarked(b)
		for n := 0; b.Loop(); n++ {
			add(b, j, n)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		j := benchmarked(b)
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n++ {
				add(b, j, n)
			}
		})
	})
}

func benchmarked(b *testing.B) *Journal {
	j := mustOpen(b, Options{Path: newPath(b), Origin: 1})
	mustOwn(b, j, 0)
	b.ReportAllocs()
	return j
}

func BenchmarkOwned(b *testing.B) {
	j := benchmarked(b)
	for b.Loop() {
		if !j.Owned() {
			b.Fatal(j.Err())
		}
	}
}

func BenchmarkRead(b *testing.B) {
	j := benchmarked(b)
	for n := range defaultRecords {
		mustAdd(b, j, n)
	}
	s := j.Segments(0)[0]
	for n := 0; b.Loop(); n++ {
		var r Record
		if ok, err := readOne(s, n%defaultRecords, &r); !ok || err != nil {
			b.Fatal(err)
		}
	}
}
