package engine

// NameOf returns the current name of a key at rest: a key of limit, or a client if limit is nil. An
// error is one of Options.Name.
func (e *Engine) NameOf(limit *Limit, key string) (Name, error) {
	id, retention := clientsID, clientRetention
	if limit != nil {
		id, retention = limit.ID, limit.Retention()
	}
	now, _ := e.Lasting()
	return e.opts.Name(id, key, retention, now)
}
