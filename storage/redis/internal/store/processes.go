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

// presence is the processes that use the place.
type presence struct{ server *server }

// Join implements [storage.Store].
func (p presence) Join(ctx context.Context, id, now, until int64) (present storage.Presence, err error) {
	err = p.server.beside(ctx, "join", func(ctx context.Context) error {
		until = min(until, now+int64(longestStay))
		key, own := p.server.names.processes(), strconv.FormatInt(id, 10)
		answers := p.server.client.DoMulti(ctx,
			p.server.client.B().Zremrangebyscore().Key(key).Min("-inf").Max(strconv.FormatInt(now/1e6, 10)).Build(),
			p.server.client.B().Zremrangebyscore().Key(key).Min("("+
				strconv.FormatInt((now+int64(longestStay))/1e6, 10)).Max("+inf").Build(),
			p.server.client.B().Zadd().Key(key).ScoreMember().ScoreMember(float64(until/1e6), own).Build(),
			p.server.client.B().Zrange().Key(key).Min("0").Max("-1").Build(),
		)
		for _, answer := range answers {
			if err := answer.Error(); err != nil {
				return err
			}
		}
		members, err := answers[len(answers)-1].AsStrSlice()
		slices.Sort(members)
		present = storage.Presence{Processes: len(members), Process: max(slices.Index(members, own), 0)}
		return err
	})
	return present, err
}

// Leave implements [storage.Store].
func (p presence) Leave(ctx context.Context, id int64) error {
	return p.server.beside(ctx, "leave", func(ctx context.Context) error {
		return p.server.client.Do(ctx,
			p.server.client.B().Zrem().Key(p.server.names.processes()).Member(strconv.FormatInt(id, 10)).Build()).Error()
	})
}
