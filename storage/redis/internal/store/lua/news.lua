-- Tells what is new: resets after the number ARGV[2], and changes of records after ARGV[3]. KEYS[3]
-- is the notes of resets, KEYS[4] the list of changes. Notes of resets before the time ARGV[4] go,
-- and those in KEYS[5] with them. Notes that machines keep are told of after the number ARGV[5], one
-- more than the 500 that fit: KEYS[6] is the hash of them, KEYS[7] their numbers. KEYS[8] is the
-- processes that use the store.
if ARGV[4] ~= '' then
  local before = tonumber(ARGV[4])
  if before == 0 then before = asof - 86400e6 end
  while true do
    local oldest = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
    if not oldest then break end
    local at, id = string.match(oldest, '^%S+ (%S+) %S+ (%S+)')
    if tonumber(at) > before then break end
    redis.call('HDEL', KEYS[5], id)
    redis.call('ZREM', KEYS[3], oldest)
  end
end
redis.call('PEXPIRE', KEYS[2], stays)
local newest, seenChanges = tonumber(meta[5]), tonumber(ARGV[3])
local changed = {}
if seenChanges >= 0 and seenChanges < newest then
  changed = redis.call('LRANGE', KEYS[4], -math.min(newest - seenChanges, 4096), -1)
end
local noted = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[2], '+inf')
local reply = leave(text(newest) .. ' ' .. redis.call('ZCARD', KEYS[8]))
reply[7], reply[8], reply[9], reply[10] = noted, changed, {}, {}
if tonumber(ARGV[5]) >= 0 then
  local names = redis.call('ZRANGEBYSCORE', KEYS[7], '(' .. ARGV[5], '+inf', 'LIMIT', 0, 501)
  local notes = {}
  if #names > 0 then notes = redis.call('HMGET', KEYS[6], unpack(names)) end
  for i, name in ipairs(names) do
    if notes[i] then
      table.insert(reply[9], name)
      table.insert(reply[10], notes[i])
    else -- somebody has removed it by hand
      redis.call('ZREM', KEYS[7], name)
    end
  end
end
return reply
