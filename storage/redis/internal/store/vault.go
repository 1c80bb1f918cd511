package store

import (
	"context"

	"github.com/redis/rueidis"
)

// vault is the values by name.
type vault struct{ server *server }

// Values implements [storage.Network].
func (v vault) Values(ctx context.Context) (values map[string][]byte, err error) {
	err = v.server.beside(ctx, "values", func(ctx context.Context) error {
		texts, err := v.server.client.Do(ctx,
			v.server.client.B().Hgetall().Key(v.server.names.values()).Build()).AsStrMap()
		values = make(map[string][]byte, len(texts))
		for name, text := range texts {
			values[name] = []byte(text)
		}
		return err
	})
	return values, err
}

// SwapValue implements [storage.Network].
func (v vault) SwapValue(ctx context.Context, name string, former, value []byte) (kept []byte, err error) {
	err = v.server.beside(ctx, "swap a value", func(ctx context.Context) error {
		arguments := []string{name, rueidis.BinaryString(former), rueidis.BinaryString(value)}
		kept, err = swapValueScript.Exec(ctx, v.server.client, []string{v.server.names.values()}, arguments).AsBytes()
		return err
	})
	return kept, err
}

// swapValueScript replaces the value ARGV[2] by ARGV[3] under the name ARGV[1], and returns the
// resulting value. An empty text stands for no value.
var swapValueScript = rueidis.NewLuaScript(`
local kept = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if kept ~= ARGV[2] then
  return kept
elseif ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
else
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return ARGV[3]
`)
