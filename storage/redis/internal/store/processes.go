package store

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// longestStay bounds for how long a process may join.
const longestStay = 7 * 24 * time.Hour

// Join implements [storage.Store].
func (s *Store) Join(ctx context.Context, id, now, until int64) (p storage.Presence, err error) {
	err = s.beside(ctx, "join", func(ctx context.Context) error {
		until = min(until, now+int64(longestStay))
		key, own := s.names.processes(), strconv.FormatInt(id, 10)
		answers := s.client.DoMulti(ctx,
			s.client.B().Zremrangebyscore().Key(key).Min("-inf").Max(strconv.FormatInt(now/1e6, 10)).Build(),
			s.client.B().Zremrangebyscore().Key(key).Min("("+strconv.FormatInt((now+int64(longestStay))/1e6, 10)).Max("+inf").Build(),
			s.client.B().Zadd().Key(key).ScoreMember().ScoreMember(float64(until/1e6), own).Build(),
			s.client.B().Zrange().Key(key).Min("0").Max("-1").Build(),
		)
		for _, answer := range answers {
			if err := answer.Error(); err != nil {
				return err
			}
		}
		members, err := answers[len(answers)-1].AsStrSlice()
		slices.Sort(members)
		p = storage.Presence{Processes: len(members), Process: max(slices.Index(members, own), 0)}
		return err
	})
	return p, err
}

// Leave implements [storage.Store].
func (s *Store) Leave(ctx context.Context, id int64) error {
	return s.beside(ctx, "leave", func(ctx context.Context) error {
		return s.client.Do(ctx, s.client.B().Zrem().Key(s.names.processes()).Member(strconv.FormatInt(id, 10)).Build()).Error()
	})
}
