-- Reads values, and if the call writes, replaces them provided that none has changed since. ARGV[2]
-- and up are three for each of KEYS[4] and up: the value that was seen, the one to put there ('' is
-- none, '=' the same), and its milliseconds (0 is for good). After those are the changes to note in KEYS[3], the
-- list of clients whose records were changed.
local values, same = {}, true
for i = 4, #KEYS do
  local n = i - 3
  values[n] = redis.call('GET', KEYS[i]) or ''
  if writes == 1 and values[n] ~= ARGV[3 * n - 1] then same = false end
end
if not same then return {'changed', text(now), text(offset), meta[4], text(asof), '', values} end
if writes == 1 then
  for n = 1, #values do
    local value, ttl = ARGV[3 * n], tonumber(ARGV[3 * n + 1])
    if given > 0 then ttl = 0 end
    if value == '=' then
      value = nil
    elseif value ~= '' then
      put(KEYS[n + 3], value, ttl)
    elseif values[n] ~= '' then
      redis.call('DEL', KEYS[n + 3])
    end
  end
  local first = 3 * #values + 2
  for i = first, #ARGV do redis.call('RPUSH', KEYS[3], ARGV[i]) end
  if #ARGV >= first then
    redis.call('HINCRBY', KEYS[1], 'changes', #ARGV - first + 1)
    redis.call('LTRIM', KEYS[3], -4096, -1)
  end
end
local reply = leave('')
reply[7] = values
return reply
