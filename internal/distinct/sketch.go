package distinct

import (
	"encoding/binary"
	"math"
)

// Sketch is the state of a set. Nil is the empty set. A sketch is immutable. Its bytes can be kept
// anywhere. Any invalid bytes are read as some sketch.
//
// It contains either the rank of each register, a byte each, or the registers that are not 0, two
// bytes each: the index and then the rank, in bits.
type Sketch []byte

const (
	rankBits = 16 - indexBits
	most     = 1 << (indexBits + maxRank) // the most values that can be counted
)

// pack encodes ranks in the shorter of the two ways.
func pack(ranks *[registers]byte) Sketch {
	var short Sketch
	for i, rank := range ranks {
		if rank == 0 {
			continue
		}
		if len(short)+2 >= registers {
			return append(Sketch(nil), ranks[:]...)
		}
		short = binary.BigEndian.AppendUint16(short, uint16(i)<<rankBits|uint16(rank))
	}
	return short
}

// unpack merges a sketch into ranks.
func (s Sketch) unpack(ranks *[registers]byte) {
	if len(s) == registers {
		for i, rank := range s {
			ranks[i] = max(ranks[i], min(rank, maxRank))
		}
		return
	}
	for ; len(s) >= 2; s = s[2:] {
		v := binary.BigEndian.Uint16(s)
		i := v >> rankBits
		ranks[i] = max(ranks[i], byte(v&(1<<rankBits-1)))
	}
}

// Merge returns the sketch of the union of two sets.
func (s Sketch) Merge(other Sketch) Sketch {
	var ranks [registers]byte
	s.unpack(&ranks)
	other.unpack(&ranks)
	return pack(&ranks)
}

// Count estimates the number of different values.
func (s Sketch) Count() int64 {
	var ranks [registers]byte
	s.unpack(&ranks)
	var with [maxRank + 1]float64 // number of registers by rank
	for _, rank := range ranks {
		with[rank]++
	}
	if with[0] == registers {
		return 0
	}
	const m = float64(registers)
	z := m * tau(1-with[maxRank]/m)
	for rank := maxRank - 1; rank >= 1; rank-- {
		z = (z + with[rank]) / 2
	}
	z += m * sigma(with[0]/m)
	return int64(math.Round(min(m*m/(2*math.Ln2*z), most)))
}

// sigma is x + Σ x^(2^k) · 2^(k-1), for empty registers.
func sigma(x float64) float64 {
	y, z := 1.0, x
	for was := -1.0; z != was; {
		x *= x
		was = z
		z += x * y
		y += y
	}
	return z
}

// tau is (1 - x - Σ (1 - x^(2^-k))² · 2^-k) / 3, for saturated registers.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for was := -1.0; z != was; {
		x = math.Sqrt(x)
		was = z
		y /= 2
		z -= (1 - x) * (1 - x) * y
	}
	return z / 3
}
