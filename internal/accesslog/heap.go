package accesslog

// numbered is a record with its number, which keeps the order of records with equal times.
type numbered struct {
	*Record
	number int64
}

func (n numbered) before(other numbered) bool {
	return n.Arrived < other.Arrived || n.Arrived == other.Arrived && n.number < other.number
}

// recordHeap is a heap with the earliest arrival first.
type recordHeap []numbered

func (h *recordHeap) push(r numbered) {
	*h = append(*h, r)
	all := *h
	for i := len(all) - 1; i > 0; {
		parent := (i - 1) / 2
		if !all[i].before(all[parent]) {
			return
		}
		all[i], all[parent] = all[parent], all[i]
		i = parent
	}
}

func (h *recordHeap) pop() *Record {
	all := *h
	first, last := all[0].Record, len(all)-1
	all[0], all[last] = all[last], numbered{}
	all = all[:last]
	*h = all
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if all[child].before(all[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		all[i], all[least] = all[least], all[i]
		i = least
	}
}
