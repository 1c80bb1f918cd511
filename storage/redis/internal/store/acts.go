package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/storage"
)

// acts are the lists of acts. A list is a sorted set. Its members begin with their time, in 16 hexadecimal
// digits, and so are in the order of time.
type acts struct{ server *server }

// maxActs are how many acts of each list are kept. Each takes some 300 bytes of the server's memory.
var maxActs = [storage.Logs]int{storage.Audit: storage.MaxActsKept, storage.Charges: 20_000}

var actScript = rueidis.NewLuaScript(`
if #redis.call('ZRANGEBYLEX', KEYS[1], '[' .. ARGV[1], '[' .. ARGV[1] .. '~', 'LIMIT', 0, 1) > 0 then return 0 end
redis.call('ZADD', KEYS[1], 0, ARGV[1] .. ARGV[2])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -ARGV[3] - 1)
return 1
`)

func timeText(at int64) string { return fmt.Sprintf("%016x", uint64(max(at, 0))) }

// Audit implements [storage.Store].
func (a acts) Audit(ctx context.Context, log storage.Log, act *storage.Act) error {
	act.Cut()
	return a.server.beside(ctx, "audit", func(ctx context.Context) error {
		for ; ; act.At++ {
			text, err := json.Marshal(act)
			if err != nil {
				return err
			}
			args := []string{timeText(act.At), string(text), strconv.Itoa(maxActs[log])}
			added, err := actScript.Exec(ctx, a.server.client, []string{a.server.names.acts(log)}, args).AsInt64()
			if err != nil || added == 1 {
				return err
			}
		}
	})
}

// Acts implements [storage.Store].
func (a acts) Acts(ctx context.Context, log storage.Log, before int64, n int) (list []storage.Act, err error) {
	err = a.server.beside(ctx, "audit", func(ctx context.Context) error {
		n = min(n, storage.MaxActs)
		if n <= 0 {
			return nil
		}
		members, err := a.server.client.Do(ctx,
			a.server.client.B().Zrevrangebylex().Key(a.server.names.acts(log)).Max("("+
				timeText(before)).Min("-").Limit(0, int64(n)).Build()).AsStrSlice()
		if err != nil {
			return err
		}
		for _, member := range members {
			var act storage.Act
			if err := json.Unmarshal([]byte(member[min(len(member), 16):]), &act); err != nil {
				return err
			}
			list = append(list, act)
		}
		return nil
	})
	return list, err
}

// drop removes old acts.
func (a acts) drop(ctx context.Context, now int64) error {
	return a.server.beside(ctx, "sweep", func(ctx context.Context) error {
		before := max(now, int64(storage.KeepActs)) - int64(storage.KeepActs)
		for log := range storage.Logs {
			err := a.server.client.Do(ctx,
				a.server.client.B().Zremrangebylex().Key(a.server.names.acts(log)).Min("-").Max("["+
					timeText(before)).Build()).Error()
			if err != nil {
				return err
			}
		}
		return nil
	})
}
