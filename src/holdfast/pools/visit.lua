-- One visit of a process to the provider pools in Redis: takes in its letter, serves those who wait, answers.
-- The rules are those of holdfast.core.quota, in the same whole microseconds; the tests compare the two.
-- KEYS[1]  the prefix of all keys (in braces, so that a cluster keeps them together)
-- ARGV     the letter in MessagePack; how long a silent process is waited for (us); how long a line may be;
--          how much later than the owner of the next ticket everybody else comes (us)

local prefix = KEYS[1]
local holder, whole, joins, leaves, returns, closings, heard = unpack(cmsgpack.unpack(ARGV[1]))
local silence_us, most_waiting, later_us = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local HOLDERS, TICKETS, LINES = prefix .. 'holders', prefix .. 'tickets', prefix .. 'lines'
local SHARES, UNTIL, RECORDS = prefix .. 'shares', prefix .. 'until', prefix .. 'records'
local function line_key(name) return prefix .. 'line:' .. name end
local function slots_key(pool) return prefix .. 'slots:' .. pool end
local function waiting_key(of) return prefix .. 'waiting:' .. of end
local function granted_key(of) return prefix .. 'granted:' .. of end

-- Levels -------------------------------------------------------------------------------------------------------------

local levels = {}

-- A pool whose record is gone starts empty, and closed for one lease: nobody knows what was lent of it.
local function level(pool, lease_us)
  if levels[pool] then return levels[pool] end
  local record = redis.call('HGET', RECORDS, pool)
  local empty_at, closed_until = now, now + lease_us
  if record then empty_at, closed_until = unpack(cmsgpack.unpack(record)) end
  redis.call('ZREMRANGEBYSCORE', slots_key(pool), '-inf', now)
  local first = redis.call('ZRANGE', slots_key(pool), 0, 0, 'WITHSCORES')
  levels[pool] = {
    empty_at = empty_at, closed_until = closed_until, refilled = false,
    taken = redis.call('ZCARD', slots_key(pool)), next_free = tonumber(first[2] or 0),
  }
  return levels[pool]
end

local function refill(pool, burst_us)
  if not pool.refilled then
    pool.empty_at = math.max(pool.empty_at, now - burst_us)
    pool.refilled = true
  end
end

local function wait_us(pool, claim)
  local cost_us, burst_us, slots = claim[2], claim[3], claim[4]
  local closed_us = math.max(0, pool.closed_until - now)
  if slots > 0 then
    if pool.taken < slots then return closed_us end
    return math.max(1, closed_us, pool.next_free - now)
  end
  refill(pool, burst_us)
  return math.max(closed_us, pool.empty_at + math.min(cost_us, burst_us) - now)
end

-- What is lent -------------------------------------------------------------------------------------------------------

local function forget_share(id)
  local packed = redis.call('HGET', SHARES, id)
  if not packed then return nil end
  local share = cmsgpack.unpack(packed)
  redis.call('HDEL', SHARES, id)
  redis.call('ZREM', UNTIL, id)
  redis.call('HDEL', granted_key(share[1]), id)
  for _, claim in ipairs(share[2]) do
    if claim[4] > 0 then redis.call('ZREM', slots_key(claim[1]), id) end
  end
  return share
end

-- Of a pool whose record is gone nothing comes back: it started empty.
local function refund(name, unused_us, burst_us)
  if levels[name] or redis.call('HEXISTS', RECORDS, name) == 1 then
    local pool = level(name, 0)
    refill(pool, burst_us)
    pool.empty_at = pool.empty_at - unused_us
  end
end

local function lend(id, ticket)
  local of, _, _, deadline_us, claims = unpack(ticket)
  local lapses = now + deadline_us
  for _, claim in ipairs(claims) do
    local pool = level(claim[1], claim[5])
    if claim[4] > 0 then
      redis.call('ZADD', slots_key(claim[1]), lapses, id)
      if pool.taken == 0 or lapses < pool.next_free then pool.next_free = lapses end
      pool.taken = pool.taken + 1
    end
    pool.empty_at = pool.empty_at + claim[2]
  end
  redis.call('HSET', SHARES, id, cmsgpack.pack({of, claims}))
  redis.call('ZADD', UNTIL, lapses, id)
  redis.call('HSET', granted_key(of), id, lapses)
  if of ~= holder then redis.call('PUBLISH', prefix .. 'called:' .. of, id) end
end

-- Lines --------------------------------------------------------------------------------------------------------------

local function line_of(claims)
  local names = {}
  for i, claim in ipairs(claims) do names[i] = claim[1] end
  return table.concat(names, '\n')
end

-- Within a score, Redis orders members as text.
local function member(id, joined) return string.format('%016.0f', joined) .. id end

local function drop_ticket(id)
  local packed = redis.call('HGET', TICKETS, id)
  if not packed then return false end
  local of, _, joined, _, claims = unpack(cmsgpack.unpack(packed))
  local name = line_of(claims)
  redis.call('HDEL', TICKETS, id)
  redis.call('SREM', waiting_key(of), id)
  redis.call('ZREM', line_key(name), member(id, joined))
  if redis.call('EXISTS', line_key(name)) == 0 then redis.call('SREM', LINES, name) end
  return true
end

local function join(ticket, seen_at)
  local id, priority, joined, deadline_us, claims = unpack(ticket)
  if redis.call('HEXISTS', TICKETS, id) == 1 or redis.call('HEXISTS', SHARES, id) == 1 then return true end
  local name = line_of(claims)
  if redis.call('ZCARD', line_key(name)) >= most_waiting then return false end
  if joined == 0 then joined = seen_at end
  redis.call('HSET', TICKETS, id, cmsgpack.pack({holder, priority, joined, deadline_us, claims}))
  redis.call('SADD', waiting_key(holder), id)
  redis.call('ZADD', line_key(name), -priority, member(id, joined))
  redis.call('SADD', LINES, name)
  return true
end

local function head_of(name)
  local first = redis.call('ZRANGE', line_key(name), 0, 0, 'WITHSCORES')
  if not first[1] then return nil end
  local id = string.sub(first[1], 17)
  return {
    line = name, id = id, place = first[1], behind = tonumber(first[2]),
    ticket = cmsgpack.unpack(redis.call('HGET', TICKETS, id)),
  }
end

local function goes_before(one, other)
  if one.behind ~= other.behind then return one.behind < other.behind end
  return one.place < other.place
end

-- Grants what can be granted now; how long until the next one can go (-1 if time alone never lets it), and whose it is.
local function serve()
  local heads, kept, again_us, whose = {}, {}, -1, holder
  for _, name in ipairs(redis.call('SMEMBERS', LINES)) do
    local head = head_of(name)
    if head then heads[#heads + 1] = head end
  end
  while #heads > 0 do
    local first = 1
    for i = 2, #heads do if goes_before(heads[i], heads[first]) then first = i end end
    local head = table.remove(heads, first)
    local short, longest, behind_others = {}, 0, false
    for _, claim in ipairs(head.ticket[5]) do
      local wait = wait_us(level(claim[1], claim[5]), claim)
      longest = math.max(longest, wait)
      if kept[claim[1]] then behind_others = true end
      if wait > 0 or kept[claim[1]] then short[#short + 1] = claim[1] end
    end
    if #short == 0 then
      drop_ticket(head.id)
      lend(head.id, head.ticket)
      local after = head_of(head.line)
      if after then heads[#heads + 1] = after end
    else
      if not behind_others and (again_us < 0 or longest < again_us) then again_us, whose = longest, head.ticket[1] end
      for _, pool in ipairs(short) do kept[pool] = true end
    end
  end
  return again_us, whose
end

-- The visit ----------------------------------------------------------------------------------------------------------

for _, dead in ipairs(redis.call('ZRANGEBYSCORE', HOLDERS, '-inf', now, 'LIMIT', 0, 100)) do
  if dead ~= holder then
    for _, id in ipairs(redis.call('SMEMBERS', waiting_key(dead))) do drop_ticket(id) end
    redis.call('ZREM', HOLDERS, dead)
  end
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', UNTIL, '-inf', now, 'LIMIT', 0, 1000)) do forget_share(id) end

local known = whole or redis.call('ZSCORE', HOLDERS, holder) ~= false
redis.call('ZADD', HOLDERS, now + silence_us, holder)

for _, returned in ipairs(returns) do
  if forget_share(returned[1]) then
    for _, each in ipairs(returned[2]) do refund(each[1], each[2], each[3]) end
  end
end
for _, closing in ipairs(closings) do
  local pool = level(closing[1], closing[3])
  pool.closed_until = math.max(pool.closed_until, now + closing[2])
  pool.empty_at = math.max(pool.empty_at, pool.closed_until)
end
local refused = {}
for i, ticket in ipairs(joins) do
  if not join(ticket, now + i - 1) then refused[#refused + 1] = ticket[1] end
end
for _, id in ipairs(leaves) do
  if not drop_ticket(id) then
    local share = forget_share(id)
    for _, claim in ipairs(share and share[2] or {}) do
      if claim[4] == 0 then refund(claim[1], claim[2], claim[3]) end
    end
  end
end
for _, id in ipairs(heard) do redis.call('HDEL', granted_key(holder), id) end

local again_us, whose = serve()
if again_us >= 0 and whose ~= holder then again_us = again_us + later_us end
for name, pool in pairs(levels) do
  redis.call('HSET', RECORDS, name, cmsgpack.pack({pool.empty_at, pool.closed_until}))
end

local granted = {}
local flat = redis.call('HGETALL', granted_key(holder))
for i = 1, #flat, 2 do granted[#granted + 1] = {flat[i], tonumber(flat[i + 1]) - now} end
return cmsgpack.pack({known, now, granted, refused, again_us})
