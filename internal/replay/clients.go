package replay

// client is what is known of a client of a limit.
type client struct {
	hash     uint64 // of its key
	peak     int64  // the most units that it wanted within a window
	slot     int64  // in which it wanted units last, unless recent has more
	units    int64  // in that slot
	recent   uint32 // index into the demand's recent; 0 for none
	requests uint32
	errors   uint32 // of these, with an answer as attackers get
	refused  bool   // whether it was, ever
}

// clients finds clients by the hash of their keys. Clients stay where they are.
type clients struct {
	blocks [][]client
	index  []uint32 // hash table of numbers of clients, counted from 1; 0 is free
	n      int
}

// blockSize is how many clients are in a block.
const blockSize = 1 << 12

func (cs *clients) at(number uint32) *client {
	return &cs.blocks[(number-1)/blockSize][(number-1)%blockSize]
}

// get returns the client with a hash, added if there is none.
func (cs *clients) get(hash uint64) *client {
	if cs.n*4 >= len(cs.index)*3 {
		cs.grow()
	}
	mask := uint64(len(cs.index) - 1)
	i := hash & mask
	for ; cs.index[i] != 0; i = (i + 1) & mask {
		if c := cs.at(cs.index[i]); c.hash == hash {
			return c
		}
	}
	if cs.n%blockSize == 0 {
		cs.blocks = append(cs.blocks, make([]client, blockSize))
	}
	cs.n++
	cs.index[i] = uint32(cs.n)
	c := cs.at(uint32(cs.n))
	c.hash = hash
	return c
}

// grow doubles the hash table.
func (cs *clients) grow() {
	cs.index = make([]uint32, max(2*len(cs.index), 64))
	mask := uint64(len(cs.index) - 1)
	for number := uint32(1); number <= uint32(cs.n); number++ {
		i := cs.at(number).hash & mask
		for cs.index[i] != 0 {
			i = (i + 1) & mask
		}
		cs.index[i] = number
	}
}

// each calls f for every client.
func (cs *clients) each(f func(*client)) {
	for number := uint32(1); number <= uint32(cs.n); number++ {
		f(cs.at(number))
	}
}
