package accesslog

// recordHeap is a [heap.Interface] with the earliest arrival first. Numbers keep the order of records with
// equal times.
type recordHeap []*Record

func (h recordHeap) Len() int { return len(h) }
func (h recordHeap) Less(i, j int) bool {
	return h[i].Arrived < h[j].Arrived || h[i].Arrived == h[j].Arrived && h[i].number < h[j].number
}
func (h recordHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *recordHeap) Push(r any)   { *h = append(*h, r.(*Record)) }

func (h *recordHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	*h = (*h)[:last]
	return r
}
