package store

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// reading has the records of some clients: the values on the server, and the changed ones to write back.
type reading struct {
	names   names
	clients []storage.Client
	keys    []string
	index   map[storage.Key]int       // of the keys, by the names of clients
	seen    []string                  // the values read
	known   map[int]reputation.Record // the records, with changes
	changed map[int]bool              // the records to write; those not in known are removed
}

func newReading(names names, clients []storage.Client) *reading {
	read := &reading{names: names, clients: clients, index: make(map[storage.Key]int)}
	for _, client := range clients {
		read.add(client.Key)
		if client.Former != (storage.Key{}) {
			read.add(client.Former)
		}
	}
	return read
}

func (read *reading) add(key storage.Key) {
	if _, known := read.index[key]; !known {
		read.index[key] = len(read.keys)
		read.keys = append(read.keys, read.names.record(key))
	}
}

// call returns the call that reads the records.
func (read *reading) call(what string) call {
	return call{what: what, script: swapScript, request: func(int64) request {
		return request{keys: append([]string{read.names.changes()}, read.keys...)}
	}}
}

// take parses the values that a call has read.
func (read *reading) take(more []rueidis.RedisMessage) error {
	if len(more) == 0 {
		return errors.New("the server's answer is too short")
	}
	values, err := more[0].AsStrSlice()
	if err != nil || len(values) != len(read.keys) {
		return fmt.Errorf("the server's answer has %d records, want %d: %w", len(values), len(read.keys), err)
	}
	read.seen, read.known, read.changed = values, make(map[int]reputation.Record), make(map[int]bool)
	for i, value := range values {
		if value != "" {
			read.known[i] = cells.ParseRecord([]byte(value))
		}
	}
	return nil
}

// record returns the record of a client at a time, and moves the record under its former name.
func (read *reading) record(client storage.Client, now int64) reputation.Record {
	i := read.index[client.Key]
	record := read.known[i]
	record.Clamp(now)
	if !client.IsRenamed() {
		return record
	}
	from := read.index[client.Former]
	former, found := read.known[from]
	if !found {
		return record
	}
	former.Clamp(now)
	record = record.Merge(former)
	delete(read.known, from)
	read.known[i], read.changed[i], read.changed[from] = record, true, true
	return record
}

// commit adds an offense to the record of its client, and returns the resulting record.
func (read *reading) commit(o storage.Offense) reputation.Record {
	record := read.record(o.Client, o.At)
	record.Commit(o.Offense)
	i := read.index[o.Key]
	read.known[i], read.changed[i] = record, true
	return record
}

// put returns the call that writes the changed records back, and notes the changes for other machines.
func (read *reading) put(what string, note []storage.Client) call {
	return call{what: what, script: swapScript, writes: true, request: func(now int64) request {
		q := request{keys: append([]string{read.names.changes()}, read.keys...)}
		for i, seen := range read.seen {
			value, ttl := "=", int64(0)
			if read.changed[i] {
				value, ttl = read.value(i, now)
			}
			q.args = append(q.args, seen, value, strconv.FormatInt(ttl, 10))
		}
		for _, client := range note {
			q.args = append(q.args, string(client.Key[:])+string(client.Former[:]))
		}
		return q
	}}
}

// value returns the value of a record, and for how many milliseconds the server keeps it: until it
// expires, and a little longer.
func (read *reading) value(i int, now int64) (value string, ttl int64) {
	record, known := read.known[i]
	if !known {
		return "", 0
	}
	ttl = max((record.Expires()-now)/1e6, 0)
	return string(cells.AppendRecord(nil, record)), ttl + ttl/1024 + 1000
}
