package engine

// NameOf returns what a key is called at rest now: for a limit that counts by it, or if that
// is nil, for the record of the client that it is. An error is one of Options.Name.
func (e *Engine) NameOf(limit *Limit, key string) (Name, error) {
	id, retention := clientsID, clientRetention
	if limit != nil {
		id, retention = limit.ID, limit.Retention()
	}
	now, _ := e.Lasting()
	return e.opts.Name(id, key, retention, now)
}
