-- Every script begins with this: is it the same place, is the caller known and in order, what is
-- the time, and does the caller's term hold?
--
-- KEYS[1] is the hash of the place: id, last (the last time that was told), offset (of that time
-- from the server's clock), resets (how many there were), changes (of records).
-- KEYS[2] is the hash of the calling machine: seq (of its last call that wrote), asof, answer.
-- All times are whole microseconds, which doubles hold exactly.
local get = string.gmatch(ARGV[1], '%S+')
local numbers, texts = {}, {} -- that were read and written: most come again
local function num()
  local t = get()
  local n = numbers[t]
  if not n then
    n = tonumber(t)
    numbers[t] = n
  end
  return n
end
local function text(n)
  local is = texts[n]
  if not is then
    is = string.format('%.0f', n)
    texts[n] = is
  end
  return is
end

local place = get()
local seq, writes = num(), num() -- the number of the caller's last call that wrote, and whether this one does
local timed = num() -- whether the call is within a term
local asof, from, within = num(), num(), num() -- the time it was made for, the first that is as good, how old it may be
local resets = num() -- that the caller knows of, or -1
local adjust, seen = num(), num() -- what to add to the offset, if that is still the one that was seen
local least = num() -- the time is not before, if the place is new
local told = num() -- the last time that the caller was told
local stays = num() -- milliseconds that the machine is known
local given = num() -- the server's time, 0 to ask for it

local meta = redis.call('HMGET', KEYS[1], 'id', 'last', 'offset', 'resets', 'changes', 'oldest')
if meta[1] ~= place then return {'lost'} end
if (tonumber(meta[6]) or 0) > FORMAT then return {'lost'} end -- of a later version: opening again says so
local machine = redis.call('HMGET', KEYS[2], 'seq', 'asof')
if not machine[1] then return {'lost'} end
local done = tonumber(machine[1])
if writes == 1 and done == seq + 1 then
  return {'again', '0', meta[3], meta[4], machine[2], redis.call('HGET', KEYS[2], 'answer')}
end
if done < seq or writes == 1 and done > seq then return {'lost'} end -- others may write while one reads

local now, offset, last = given, tonumber(meta[3]), tonumber(meta[2])
local fixed = last == 0 -- whether the time must be kept
if given == 0 then
  local t = redis.call('TIME')
  now = tonumber(t[1]) * 1000000 + tonumber(t[2])
end
if timed == 1 then
  local passed = now + offset - last
  if passed > 0 and offset ~= 0 then -- the offset wears off, see storage.Slew
    local slewed = math.min(math.floor(passed / 2048), math.abs(offset))
    if offset < 0 then slewed = -slewed end
    offset = offset - slewed
  end
  if last == 0 and least > now and least - now < 5400e6 then offset = least - now end
  now = now + offset
  local function goOn() -- no time comes back
    if now < math.max(last, told) then
      fixed = true
      offset = offset + math.max(last, told) - now
      now = math.max(last, told)
    end
  end
  goOn()
  if adjust ~= 0 and seen == tonumber(meta[3]) then
    local before = now
    offset, now, fixed = offset + adjust, now + adjust, true
    goOn()
    if now < before - 1e6 and given == 0 then -- the server's clock was set ahead: it may have dropped what still counts
      local id = string.sub(place, 1, 32) .. '-' .. text(now - offset) -- all machines notice another place
      redis.call('HSET', KEYS[1], 'id', id, 'last', text(now), 'offset', text(offset))
      return {'lost'}
    end
  end
  if tonumber(meta[4]) ~= resets and resets >= 0 then
    return {'term', text(now), text(offset), meta[4], text(math.min(asof, now)), ''}
  end
  if asof > now and now >= from then asof = now end
  if asof > now or asof < now - within then
    if fixed then redis.call('HSET', KEYS[1], 'last', text(now), 'offset', text(offset)) end
    return {'time', text(now), redis.call('HGET', KEYS[1], 'offset'), meta[4], '0', ''}
  end
end

-- leave ends a call: what it answers is kept if it has written.
local function leave(answer)
  if timed == 1 and (writes == 1 or fixed) then
    redis.call('HSET', KEYS[1], 'last', text(now), 'offset', text(offset))
  end
  if writes == 1 then
    redis.call('HSET', KEYS[2], 'seq', text(seq + 1), 'asof', text(asof), 'answer', answer)
    redis.call('PEXPIRE', KEYS[2], stays)
  end
  return {'ok', text(now), text(offset), meta[4], text(asof), answer}
end

-- put keeps a value for some milliseconds, or for good if they are 0.
local function put(key, value, ttl)
  if ttl > 0 then
    redis.call('SET', key, value, 'PX', text(ttl))
  else
    redis.call('SET', key, value)
  end
end
