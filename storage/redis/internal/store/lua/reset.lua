-- Forgets keys and notes that. KEYS[3] is the sorted set of notes by number, KEYS[4] the hash of
-- notes by id. ARGV[2] is the time to note. Then there are four for each reset: its id, how many of
-- KEYS[5] and up are its own, what it is of, and the time below which notes go.
local each = 4
for i = 3, #ARGV, 3 do
  local id, keys, of = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local noted = redis.call('HGET', KEYS[4], id)
  if noted then
    each = each + keys
  else
    local found = '0'
    for _ = 1, keys do
      each = each + 1
      if redis.call('DEL', KEYS[each]) == 1 then found = '1' end
    end
    local number = redis.call('HINCRBY', KEYS[1], 'resets', 1)
    meta[4] = text(number)
    local at = ARGV[2]
    if at == '' then at = text(asof) end
    noted = text(number) .. ' ' .. at .. ' ' .. found
    redis.call('HSET', KEYS[4], id, noted)
    redis.call('ZADD', KEYS[3], number, noted .. ' ' .. id .. ' ' .. of)
  end
end
local answers = {}
for i = 3, #ARGV, 3 do answers[#answers + 1] = redis.call('HGET', KEYS[4], ARGV[i]) end
while redis.call('ZCARD', KEYS[3]) > 4096 do
  local oldest = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
  redis.call('HDEL', KEYS[4], string.match(oldest, '^%S+ %S+ %S+ (%S+)'))
  redis.call('ZREM', KEYS[3], oldest)
end
return leave(table.concat(answers, ' '))
