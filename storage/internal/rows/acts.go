package rows

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/caddy-tally/caddy-tally/storage"
)

// trimEvery is after how many acts of a process a list is cut to its bound.
const trimEvery = 256

// Audit implements [storage.Auditor].
func (s *Side) Audit(ctx context.Context, log storage.Log, act *storage.Act) error {
	if s.added[log].Add(1)%trimEvery == 1 {
		if err := s.trim(ctx, ofActs+byte(log)); err != nil {
			return err
		}
	}
	act.Cut()
	for ; ; act.At++ {
		name, value, added := nameOf(ofActs+byte(log), act.At, ""), appendAct(act), false
		err := s.acts.Update(ctx, "audit", []string{name}, func(rows map[string][]byte) {
			if added = len(rows[name]) == 0 || added && bytes.Equal(rows[name], value); added {
				rows[name] = value
			}
		})
		if err != nil || added {
			return err
		}
	}
}

// trim deletes the oldest acts of a list that has no room for another one.
func (s *Side) trim(ctx context.Context, letter byte) error {
	all := allOf(letter)
	all.Newest, all.Skip = 1, storage.MaxActsKept-1
	last := ""
	err := s.acts.Scan(ctx, "audit", all, func(name string, _ []byte) { last = name })
	if err != nil || last == "" {
		return err
	}
	_, err = s.acts.Remove(ctx, "audit", []Range{{From: all.From, End: last + "\x00"}}, 4*trimEvery)
	return err
}

// Acts implements [storage.Auditor].
func (s *Side) Acts(ctx context.Context, log storage.Log, before int64, n int) (list []storage.Act, err error) {
	r := allOf(ofActs + byte(log))
	r.End = nameOf(ofActs+byte(log), before, "")
	if r.Newest = min(n, storage.MaxActs); r.Newest <= 0 {
		r.End = r.From
	}
	err = s.acts.Scan(ctx, "audit", r, func(name string, value []byte) { list = append(list, parseAct(name, value)) })
	return list, err
}

func textsOf(a *storage.Act) []*string {
	return []*string{&a.By, &a.Action, &a.Target, &a.Kind, &a.Reason}
}

func appendAct(a *storage.Act) []byte { return appendTexts(nil, textsOf(a)) }

func parseAct(name string, value []byte) (a storage.Act) {
	a.At = int64(binary.BigEndian.Uint64([]byte(name[1:])) ^ 1<<63)
	parseTexts(value, textsOf(&a))
	return a
}

// appendTexts appends texts, each after its length.
func appendTexts(to []byte, texts []*string) []byte {
	for _, text := range texts {
		to = append(binary.AppendUvarint(to, uint64(len(*text))), *text...)
	}
	return to
}

func parseTexts(from []byte, texts []*string) (rest []byte) {
	for _, text := range texts {
		length, n := binary.Uvarint(from)
		if n <= 0 || length > uint64(len(from)-n) {
			return nil
		}
		*text, from = string(from[n:n+int(length)]), from[n+int(length):]
	}
	return from
}
