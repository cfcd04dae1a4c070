-- admit: hands the next batch of people to the leader, or says why nobody.
--
-- KEYS  1 line  2 seq  3 state  4 pending  5 active  6 pace
-- ARGV  1 epoch  2 batch number  3 the ticket of the leader's own last record  4 how many at most (1 to 1,000)
--       5 people a second  6 depth of the bucket, people  7 how long a grant lasts, ms  8 prefix of the grant keys
-- Returns {why, visitor, ticket, visitor, ticket, …} in ticket order; why is handed, empty, paced, behind or fenced.
--
-- Safe to run twice: the batch number asked for before gives the same people again, so a lost reply loses nobody. A
-- number that is neither the last one nor the next means a new leader or a dataset that went back in time: nothing is
-- handed out until seq has met the leader's last record, and then what is still pending is in no log and goes first.
-- What is popped is provisional until the leader's record is in the log; so are the grants written here.

local LINE, SEQ, STATE, PENDING, ACTIVE, PACE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local call = redis.call

local st = call('HMGET', STATE, 'epoch', 'fence', 'batch')
local fence, last = st[2] or '0', st[3] or '0'
if tonumber(ARGV[1]) < math.max(tonumber(fence), tonumber(st[1] or '0')) then
  return {'fenced'}
end

local t = call('TIME')
local nowms = tonumber(t[1]) * 1000 + tonumber(t[2]) / 1000

local people = {} -- {visitor, ticket}
local same = ARGV[1] == fence and ARGV[2] == last
local unbroken = ARGV[1] == fence and tonumber(ARGV[2]) == tonumber(last) + 1
local rehand = false
if not same then
  if not unbroken and tonumber(call('GET', SEQ) or '0') < tonumber(ARGV[3]) then
    return {'behind'}
  end
  rehand = not unbroken and call('HLEN', PENDING) > 0
end

if same or rehand then
  if rehand then
    call('HSET', STATE, 'fence', ARGV[1], 'batch', ARGV[2])
  end
  local all = call('HGETALL', PENDING)
  for i = 1, #all, 2 do
    local ticket, batch, s = string.match(all[i + 1], '^(%d+):(%d+):(%d)$')
    if rehand then
      batch = ARGV[2]
      call('HSET', PENDING, all[i], ticket .. ':' .. batch .. ':' .. s)
    end
    if batch == ARGV[2] then
      people[#people + 1] = {all[i], ticket}
    end
  end
  table.sort(people, function(a, b) return tonumber(a[2]) < tonumber(b[2]) end)
else
  local rate, depth = tonumber(ARGV[5]), tonumber(ARGV[6])
  local b = call('HMGET', PACE, 'tokens', 'at')
  local tokens = depth
  if b[1] then
    tokens = math.min(depth, tonumber(b[1]) + rate * math.max(0, nowms - tonumber(b[2])) / 1000)
  end
  local n = math.min(tonumber(ARGV[4]), math.floor(tokens + 1e-6))
  if n < 1 then
    return {'paced'}
  end
  call('HSET', STATE, 'fence', ARGV[1], 'batch', ARGV[2])
  local head = call('ZRANGE', LINE, 0, n - 1, 'WITHSCORES')
  local free = 0
  if #head > 0 then
    local who = {}
    for i = 1, #head, 2 do who[#who + 1] = head[i] end
    local ps = call('HMGET', PENDING, unpack(who))
    -- A head that is itself pending re-entered while being admitted: wait until the log says which came first.
    while free < #who and not ps[free + 1] do free = free + 1 end
  end
  if free > 0 then
    local popped = call('ZPOPMIN', LINE, free)
    local expires = nowms + tonumber(ARGV[7])
    local exp = string.format('%.0f', expires)
    local pend, act = {}, {}
    for i = 1, #popped, 2 do
      local ticket = string.format('%.0f', tonumber(popped[i + 1]))
      people[#people + 1] = {popped[i], ticket}
      pend[#pend + 1] = popped[i]
      pend[#pend + 1] = ticket .. ':' .. ARGV[2] .. ':1'
      act[#act + 1] = exp
      act[#act + 1] = popped[i]
      call('SET', ARGV[8] .. popped[i], ticket, 'PXAT', exp)
    end
    call('HSET', PENDING, unpack(pend))
    call('ZADD', ACTIVE, unpack(act))
  end
  call('HSET', PACE, 'tokens', string.format('%.6f', tokens - free), 'at', string.format('%.3f', nowms))
  -- Grants that ended make room; bounded, since the rest can wait for the next batch.
  local over = call('ZRANGEBYSCORE', ACTIVE, '-inf', string.format('%.0f', nowms), 'LIMIT', 0, 1000)
  if #over > 0 then call('ZREM', ACTIVE, unpack(over)) end
end

if #people == 0 then
  return {'empty'}
end
local out = {'handed'}
for _, p in ipairs(people) do
  out[#out + 1] = p[1]
  out[#out + 1] = p[2]
end
return out
