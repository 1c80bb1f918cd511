-- Changes notes. KEYS[3] is the hash of notes by name: number, version and end, then the value; KEYS[4]
-- the sorted set of names by number, KEYS[5] of those that end by the millisecond. ARGV[2] is 1 if
-- changes that are not later than what is known have no effect, ARGV[3] how many notes there may be.
-- Then there are five for each change: name, version, end, the same in milliseconds, value.
local replay, most = ARGV[2] == '1', tonumber(ARGV[3])
local known, added = {}, 0
for i = 4, #ARGV, 5 do
  local name = ARGV[i]
  if not known[name] then
    local kept = redis.call('HGET', KEYS[3], name)
    if kept then
      known[name] = tonumber(string.match(kept, '^%S+ (%S+)'))
    else
      known[name], added = 0, added + 1
    end
  end
end
if redis.call('HLEN', KEYS[3]) + added > most then
  return {'full', text(now), text(offset), meta[4], text(asof), ''}
end
-- Numbers come from the time: those that a server has given and lost stay below.
local number = math.max(tonumber(redis.call('HGET', KEYS[1], 'notes') or '0'), now - 1)
local versions = {}
for i = 4, #ARGV, 5 do
  local name, version = ARGV[i], tonumber(ARGV[i + 1])
  if not replay then version = math.max(version, known[name] + 1) end
  if version > known[name] then
    number = number + 1
    redis.call('HSET', KEYS[3], name, text(number) .. ' ' .. text(version) .. ' ' .. ARGV[i + 2] .. ' ' .. ARGV[i + 4])
    redis.call('ZADD', KEYS[4], text(number), name)
    if ARGV[i + 3] == '0' then
      redis.call('ZREM', KEYS[5], name)
    else
      redis.call('ZADD', KEYS[5], ARGV[i + 3], name)
    end
    known[name] = version
  end
  versions[#versions + 1] = text(known[name])
end
redis.call('HSET', KEYS[1], 'notes', text(number))
return leave(table.concat(versions, ' '))
