package engine

// flushSize is how many leases are given back in one transaction on close, and how many
// debts are settled in one after an outage.
const flushSize = 512

// flush calls add with every key, locked, and commits what it has added.
func (m *committer) flush(add func(*batch, *cell)) error {
	b := &batch{done: make(chan struct{})}
	var err error
	m.table.each(func(c *cell) {
		if err != nil {
			return
		}
		c.mu.Lock()
		add(b, c)
		c.mu.Unlock()
		if len(b.entries) >= flushSize {
			err = m.flushBatch(b)
		}
	})
	if err != nil {
		return err
	}
	return m.flushBatch(b)
}

func (m *committer) flushBatch(b *batch) error {
	if len(b.entries) == 0 {
		return nil
	}
	if b.err = m.put(b); b.err != nil {
		return b.err
	}
	b.entries = b.entries[:0]
	return nil
}

// returnLocked adds the debts of a key, and the lease that it holds, to a batch.
func (b *batch) returnLocked(c *cell) {
	b.chargeLocked(c)
	if c.leaseLocked().Holds() {
		b.entries = append(b.entries, &entry{cell: c, limit: c.limit, batch: b, give: c.takeLeaseLocked()})
	}
}
