-- Decides claims as limiter.Limit.Claim does, and charges what it grants. Go makes the grants from
-- the answer by the same arithmetic. A fuzz test holds the two together on a real server. Compare and set in
-- place of this script fails where machines share a key (decision 175).
--
-- ARGV[2] is the claims; KEYS[3] and up are what they are of. ARGV[3] is 1 if nothing is to be kept.
-- ARGV[4] is how many of the last keys are records of clients, which are only read. ARGV[5] and up are two
-- for each group of claims that are alike: how many of the next keys they are of, one claim each, and the
-- claim.
get = string.gmatch(ARGV[2], '%S+')
local dry, records = ARGV[3] == '1', tonumber(ARGV[4])
local states = {}
local kept = {}
if #KEYS > 2 + records then kept = redis.call('MGET', unpack(KEYS, 3, #KEYS - records)) end

-- load returns the state of a key: kind 's' has slots, kind 'b' a bucket, nil if it is empty.
local function load(i, kind)
  local st = states[i]
  if st then return st end
  st = {kind = kind, used = {}, expires = 0}
  states[i] = st
  if not kept[i] then return st end
  local each = string.gmatch(kept[i], '%S+')
  if each() ~= kind then return st end
  st.expires = tonumber(each())
  if kind == 'b' then
    st.bucket = {s = tonumber(each()), n = tonumber(each()), units = tonumber(each()), part = {tonumber(each()), tonumber(each()), tonumber(each())}}
    return st
  end
  for index in each do st.used[tonumber(index)] = tonumber(each()) end
  return st
end

-- share is limiter.Limit.share.
local function share(min, want, extra, part, left)
  left = math.max(left, 0)
  local most = math.max(want, min)
  if left < min or most <= 0 then return 0 end
  local units = math.min(most, left)
  local more = math.min(extra, math.floor((left - units) / part))
  if more > 0 then units = units + more end
  return units
end

local MOST = 230584300921369 -- units in a slot that are believed: limiter.maxUsed

local function add(st, index, units)
  local was = st.used[index] or 0
  local is = math.min(math.max(was + math.min(units, MOST), 0), MOST)
  if is == was then return 0 end
  st.used[index], st.changed = is, true
  return is - was
end

-- through returns how many of the units of a lease are charged to its first slots.
local function through(units, slots, span) return math.floor(units * slots / (span + 1)) end

local limits = {} -- by their numbers: what claims of one limit share
local back, charge -- what the next claim gives back and charges

local function slots(i, former, limit)
  local amount, slot, oldest, newest, length = limit[1], limit[2], limit[3], limit[4], limit[5]
  local min, want, extra, ahead, spread = num(), num(), num(), num(), num()
  local st = load(i, 's')
  if former > 0 then
    local old = load(former, 's')
    for index, units in pairs(old.used) do
      add(st, index, units)
      old.changed = true
    end
    old.used = {}
  end
  local function used()
    local sum = 0
    for index, units in pairs(st.used) do
      if index >= oldest and index <= newest then sum = sum + units end
    end
    return sum
  end
  if back then -- limiter.State.giveBack
    local units, spent, span, lapsed = back[2], back[3], back[4], back[5]
    local first, all = back[1] - span, units + spent
    for i = 0, span do
      local from, to = through(all, i, span), through(all, i + 1, span)
      local stays = math.max(math.min(to, lapsed + spent) - math.max(from, lapsed), 0)
      add(st, first + i, from + stays - to)
      if first + i > slot then add(st, slot, -add(st, first + i, -stays)) end
    end
    back = nil
  end
  if charge then
    local at, units, floor = charge[1], charge[2], charge[3]
    if floor == 1 then units = math.max(units - used(), 0) end
    add(st, at, units)
    charge = nil
  end
  local before, at = used(), slot
  local units = share(min, want, extra, limit[7], amount - before)
  if units > 0 then
    local more, span = units - want, 0
    if spread == 1 then -- limiter.Limit.span
      local asked = math.min(math.max(want, min), amount) + math.min(extra, amount)
      ahead = math.max(math.floor((ahead + 1) * units / asked) - 1, 0)
      span = ahead
    elseif more <= 0 then
      ahead = 0
    elseif ahead > 0 then -- limiter.Limit.late
      local free = math.max(amount - before - units, 0)
      free = math.floor(math.floor(free * 1024 / amount) * length / 1024)
      ahead = math.min(ahead, free, math.floor(limit[6] / math.max(more, want)))
    end
    at = slot + ahead
    for i = 0, span do add(st, at - span + i, through(units, i + 1, span) - through(units, i, span)) end
  elseif min > 0 then -- when is there enough?
    local order, left = {}, amount - before
    for index in pairs(st.used) do
      if index >= oldest and index <= newest then order[#order + 1] = index end
    end
    table.sort(order)
    for _, index in ipairs(order) do
      left = left + st.used[index]
      if left >= min then
        at = index
        break
      end
    end
  end
  if st.changed then
    local top = slot
    for index, units in pairs(st.used) do
      if units == 0 or index < oldest then
        st.used[index] = nil
      elseif index <= newest and index > top then
        top = index
      end
    end
    st.expires = math.max(st.expires, limit[8] + (top - slot) * limit[9])
  end
  return text(before) .. ' ' .. text(at)
end

-- What follows is arithmetic of 72 bits, in three limbs of 24, the lowest first. Products and sums
-- wrap around, so a difference that is small comes out right whatever it is of.
local B = 16777216

local function carry(a, b, c)
  local up = math.floor(a / B)
  a, b = a - up * B, b + up
  up = math.floor(b / B)
  b, c = b - up * B, c + up
  return {a, b, c % B}
end

local function big(n) -- of a number below 2^53
  local up = math.floor(n / B)
  return carry(n - up * B, up, 0)
end

local function mul(x, y)
  return carry(x[1] * y[1], x[1] * y[2] + x[2] * y[1], x[1] * y[3] + x[2] * y[2] + x[3] * y[1])
end

local function plus(x, y) return carry(x[1] + y[1], x[2] + y[2], x[3] + y[3]) end
local function minus(x, y) return carry(x[1] - y[1], x[2] - y[2], x[3] - y[3]) end
local function negative(x) return x[3] >= B / 2 end
local function less(x, y)
  if x[3] ~= y[3] then return x[3] < y[3] end
  if x[2] ~= y[2] then return x[2] < y[2] end
  return x[1] < y[1]
end
local function isZero(x) return x[1] == 0 and x[2] == 0 and x[3] == 0 end

local BILLION = big(1000000000)
local ENDLESS = 70368744177664 -- 2^46 units: more than any limit has
local CROWD = 2199023255552 -- 2^41: the most units that are believed in a bucket

local function bucket(i, former)
  local capacity, amount = num(), num()
  local window = {num(), num(), num()}
  local now = {s = math.floor(asof / 1000000), n = (asof % 1000000) * 1000}
  local aheadS, aheadN = num(), num()
  local lasts, mostLasts = num(), num() -- nanoseconds
  local min, want, extra, part = num(), num(), num(), num()
  local chargeUnits, floor = num(), num()
  local back = num() == 1
  local length = window[1] + window[2] * B + window[3] * B * B

  local function take(units, rest, byUnits, byRest)
    if byUnits > units or (byUnits == units and not less(byRest, rest)) then return 0, {0, 0, 0} end
    if less(rest, byRest) then return units - byUnits - 1, minus(plus(rest, window), byRest) end
    return units - byUnits, minus(rest, byRest)
  end
  local function since(to, at) -- seconds and nanoseconds, the seconds negative if to is before at
    local s, n = to.s - at.s, to.n - at.n
    if n < 0 then s, n = s - 1, n + 1000000000 end
    return s, n
  end
  local function refilled(s, n)
    local units = math.floor((s * 1000000000 + n) * amount / length) -- or a little more or less
    if units >= ENDLESS then return ENDLESS, {0, 0, 0} end
    local rest = minus(mul(plus(mul(big(s), BILLION), big(n)), big(amount)), mul(big(units), window))
    while negative(rest) do units, rest = units - 1, plus(rest, window) end
    while not less(rest, window) do units, rest = units + 1, minus(rest, window) end
    return units, rest
  end
  local function drain(b)
    if not b then return {s = now.s, n = now.n, units = 0, part = {0, 0, 0}} end
    local is = {s = b.s, n = b.n, units = math.min(math.max(b.units, 0), CROWD), part = b.part}
    if not less(is.part, window) then is.units, is.part = is.units + 1, {0, 0, 0} end
    local s, n = since(is, now)
    if s > 0 or (s == 0 and n > 0) then
      if s > aheadS or (s == aheadS and n > aheadN) then return drain(nil) end
      return is
    end
    is.units, is.part = take(is.units, is.part, refilled(since(now, is)))
    is.s, is.n = now.s, now.n
    return is
  end
  local function asOf(b) -- limiter.Limit.asOf
    local s, n = since(b, now)
    if s < 0 or (s == 0 and n == 0) then return b.units, b.part end
    if s * 1000000000 + n > mostLasts then s, n = 0, mostLasts end
    local units, rest = refilled(s, n)
    units, rest = b.units + units, plus(b.part, rest)
    if not less(rest, window) then units, rest = units + 1, minus(rest, window) end
    return units, rest
  end
  local function inUse(b)
    local units, rest = asOf(b)
    if isZero(rest) then return units end
    return units + 1
  end
  local function lasting(b)
    local n = now.n + lasts
    local over = math.floor(n / 1000000000)
    local later = {s = now.s + over, n = n - over * 1000000000}
    local s, rest = since(later, b)
    if lasts <= 0 or s < 0 or (s == 0 and rest == 0) then return b end
    later.units, later.part = take(b.units, b.part, refilled(s, rest))
    return later
  end

  local st = load(i, 'b')
  if former > 0 then
    local old = load(former, 'b')
    if old.bucket then
      local is, more = drain(st.bucket), drain(old.bucket)
      local s, n = since(more, is)
      if s > 0 or (s == 0 and n > 0) then is, more = more, is end
      local units, rest = asOf(more)
      is.units, is.part = is.units + units, plus(is.part, rest)
      if not less(is.part, window) then is.units, is.part = is.units + 1, minus(is.part, window) end
      is.units = math.min(is.units, CROWD)
      st.bucket, st.changed = is, true
      old.bucket, old.changed = nil, true
    end
  end
  local is = drain(st.bucket)
  local wasUnits, wasPart = is.units, is.part
  if back then
    local at = {s = num(), n = num()}
    local units, held = num(), {num(), num(), num()}
    local spent, spentPart = num(), {num(), num(), num()}
    local s, n = since(is, at)
    if s >= 0 and (s > 0 or n > 0) then
      local drained, rest = refilled(s, n)
      drained, rest = take(drained, rest, spent, spentPart)
      units, held = take(units, held, drained, rest)
    end
    is.units, is.part = take(is.units, is.part, math.max(units, 0), held)
  end
  local missing = chargeUnits
  if floor == 1 then missing = chargeUnits - is.units end
  is.units = math.min(is.units + math.max(missing, 0), CROWD)
  local answer = table.concat({text(is.s), text(is.n), text(is.units), text(is.part[1]), text(is.part[2]), text(is.part[3])}, ' ')
  local units = share(min, want, extra, part, capacity - inUse(is))
  if units > math.max(want, min) then
    local later = lasting(is)
    if inUse(later) <= capacity - units then is = later end
  end
  is.units = is.units + units
  if units > 0 or is.units ~= wasUnits or less(is.part, wasPart) or less(wasPart, is.part) then
    st.bucket, st.changed = is, true
  end
  if st.bucket then
    local b = st.bucket
    st.expires = math.ceil(b.s * 1000 + b.n / 1000000 + (b.units + 1) * (length / 1000000 / amount)) + 1
  end
  return answer
end

local function decide(kind, i, former)
  if kind == 's' then return slots(i, former, limits[num()]) end
  return bucket(i, former)
end

local answers = {}
local kind = get()
while kind do
  if kind == 'r' then
    back = {num(), num(), num(), num(), num()}
  elseif kind == 'c' then
    charge = {num(), num(), num()}
  elseif kind == 'l' then
    limits[#limits + 1] = {num(), num(), num(), num(), num(), num(), num(), num(), num()}
  else
    answers[#answers + 1] = decide(kind, num(), num())
  end
  kind = get()
end

local last = #KEYS - 2 - records
for n = 5, #ARGV, 2 do last = last - tonumber(ARGV[n]) end
for n = 5, #ARGV, 2 do
  local first, answer, state = last + 1
  last = last + tonumber(ARGV[n])
  for i = first, last do
    if kept[i] or not answer then
      get = string.gmatch(ARGV[n + 1], '%S+')
      answers[#answers + 1] = decide(get(), i, 0)
      if not kept[i] then answer, state = answers[#answers], states[i] end
    else -- another new key has got the same
      answers[#answers + 1], states[i] = answer, state
    end
  end
end

-- pack sets the text of a state, which is nil if it is empty, and for how long it is kept.
local function pack(st)
  local list = {st.kind, text(math.min(st.expires, 9e15))}
  if st.bucket then
    local b = st.bucket
    list[3], list[4], list[5] = text(b.s), text(b.n), text(b.units)
    list[6], list[7], list[8] = text(b.part[1]), text(b.part[2]), text(b.part[3])
  end
  for index, units in pairs(st.used) do
    list[#list + 1] = text(index)
    list[#list + 1] = text(units)
  end
  local ttl = math.max(st.expires - math.floor(asof / 1000), 0)
  ttl = math.min(ttl + math.floor(ttl / 1024) + 1000, 9e14) -- a little longer than it counts
  if given > 0 then ttl = ttl + 3600000 end
  if #list > 2 then st.text, st.ttl = table.concat(list, ' '), ttl end
  st.packed = true
end

for i, st in pairs(states) do
  if st.changed and not dry then
    if not st.packed then pack(st) end
    if st.text then
      put(KEYS[2 + i], st.text, st.ttl)
    else
      redis.call('DEL', KEYS[2 + i])
    end
  end
end

local known = {}
for i = 1, records do known[i] = redis.call('GET', KEYS[#KEYS - records + i]) or '' end
local reply = leave(table.concat(answers, ' '))
reply[7] = known
return reply
