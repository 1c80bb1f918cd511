-- Opens the place: makes it if there is nothing, and notes the calling machine. KEYS[3] and up are
-- machines whose late calls must have no effect any more. ARGV: the version of the program, the oldest
-- version whose programs can use the data of this one, a new id, the time that the machine is known in
-- milliseconds, and the last call of each of KEYS[3] and up that was acknowledged: if one isn't there,
-- writes are lost. All other scripts need the server's time.
local program = tonumber(ARGV[1])
local time = redis.pcall('TIME')
if type(time) ~= 'table' then return {'timeless', tostring(time)} end
if time.err then return {'timeless', time.err} end
if (tonumber(time[1]) or 0) <= 0 then return {'timeless', 'it answers ' .. tostring(time[1])} end
local kind = redis.call('TYPE', KEYS[1])
if type(kind) == 'table' then kind = kind.ok end
if kind ~= 'none' and kind ~= 'hash' then return {'foreign', 'a ' .. kind} end
local format = redis.call('HGET', KEYS[1], 'format')
local broken = not format and redis.call('HEXISTS', KEYS[1], 'last') + redis.call('HEXISTS', KEYS[1], 'offset') == 2
local version = tonumber(format or '')
if version and version > program and (tonumber(redis.call('HGET', KEYS[1], 'oldest')) or math.huge) > program then
  return {'later', format}
end
if kind == 'hash' and not version and not broken then
  return {'foreign', format and 'format ' .. format or 'a hash without a format'}
end
if kind == 'none' or broken then -- broken: a server has loaded its log without the transactions in it
  redis.call('HSET', KEYS[1], 'format', ARGV[1], 'oldest', ARGV[2], 'id', ARGV[3], 'last', '0', 'offset', '0', 'resets', '0', 'changes', '0')
elseif version < program then
  redis.call('HSET', KEYS[1], 'format', ARGV[1], 'oldest', ARGV[2])
end
local status = 'ok'
for i = 3, #KEYS do
  local seq = redis.call('HGET', KEYS[i], 'seq')
  if not seq or tonumber(seq) < tonumber(ARGV[i + 2]) then status = 'lost' end
  redis.call('DEL', KEYS[i])
end
redis.call('HSET', KEYS[2], 'seq', '0', 'asof', '0', 'answer', '')
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return {status, redis.call('HGET', KEYS[1], 'id')}
