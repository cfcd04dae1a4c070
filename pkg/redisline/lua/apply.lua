-- apply: folds a batch of records into the line, if the batch follows what was applied.
--
-- KEYS  1 line  2 seq  3 keys  4 state  5 pending  6 active
-- ARGV  1 the ticket that the batch follows   2 the ticket of its last record   3 the topic's id, '' to leave it out
--       4 prefix of the grant keys            5… the records:
--         E n (ticket visitor)×n     entries without idempotency key, one after another
--         K ticket visitor key       an entry with one
--         L visitor                  left
--         C ticket                   claimed
--         S rule                     0 back, 1 keep
--         A epoch n (visitor ticket expiresMs)×n    admitted
--         R visitor ticket           released
--         X epoch ticket why         the line is ended
--         O epoch                    reopened
-- Returns {1, seq} when applied; {0, seq} when the batch does not follow seq, and nothing changed: read on from there;
--       {2, topic} when the view was built from another topic, and nothing changed.
--
-- Safe to run twice: the second run finds that seq has moved, changes nothing, and says where to read on. Safe against a
-- second projector and a dataset that went back in time for the same reason. At most 1,000 members a call, by the caller.
-- Tickets travel as strings; Lua's numbers are exact below 2^53 and are printed by %.0f only.

local LINE, SEQ, KEYDIGESTS, STATE, PENDING, ACTIVE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local call = redis.call

local seq = call('GET', SEQ) or '0'
local st = call('HMGET', STATE, 'served', 'epoch', 'rule', 'topic', 'gone', 'end', 'draw')
if ARGV[3] ~= '' and st[4] and st[4] ~= '' and st[4] ~= ARGV[3] then
  return {2, st[4]}
end
if seq ~= ARGV[1] then
  return {0, seq}
end

-- The first write is one that a Redis without memory refuses, so that a refused batch has changed nothing.
call('INCRBY', SEQ, string.format('%.0f', tonumber(ARGV[2]) - tonumber(ARGV[1])))

local served = tonumber(st[1] or '0')
local epoch = st[2] or '0'
local keep = st[3] == '1'
local ending = st[6] or '' -- ticket:over:why
local over = string.match(ending, '^%d+:1:') ~= nil
local pendings = call('HLEN', PENDING)
local haskeys = call('HLEN', KEYDIGESTS) > 0
local grants = ARGV[4]
local resweep = false
local nowms

-- fall ends the standing of a pop whose visitor refreshed or left meanwhile.
local function fall(visitor, p)
  if string.sub(p, -1) == '1' then
    call('HSET', PENDING, visitor, string.sub(p, 1, -2) .. '0')
    resweep = true
  end
end

local function stands(p)
  return p and string.sub(p, -1) == '1'
end

-- A run of entries: ARGV[from..to] is ticket, visitor, ticket, visitor…
local function run(from, to)
  if over then
    return
  end
  if keep then
    for i = from, to, 2 do
      if pendings == 0 or not stands(call('HGET', PENDING, ARGV[i + 1])) then
        call('ZADD', LINE, 'NX', ARGV[i], ARGV[i + 1])
      end
    end
    return
  end
  call('ZADD', LINE, unpack(ARGV, from, to))
  if pendings == 0 and not haskeys then
    return
  end
  local who = {}
  for i = from + 1, to, 2 do
    who[#who + 1] = ARGV[i]
  end
  if haskeys then
    call('HDEL', KEYDIGESTS, unpack(who))
  end
  if pendings > 0 then
    local ps = call('HMGET', PENDING, unpack(who))
    for i, p in ipairs(ps) do
      if p then fall(who[i], p) end
    end
  end
end

local function entered(ticket, visitor, key)
  if over then
    return
  end
  if haskeys and call('HGET', KEYDIGESTS, visitor) == key then
    return -- a retransmission: who has a key here waits
  end
  local p = pendings > 0 and call('HGET', PENDING, visitor)
  if keep and (stands(p) or call('ZSCORE', LINE, visitor)) then
    return
  end
  call('ZADD', LINE, ticket, visitor)
  call('HSET', KEYDIGESTS, visitor, key)
  haskeys = true
  if p then fall(visitor, p) end
end

local function left(visitor)
  call('ZREM', LINE, visitor)
  if haskeys then call('HDEL', KEYDIGESTS, visitor) end
  local p = pendings > 0 and call('HGET', PENDING, visitor)
  if p then fall(visitor, p) end
end

local function admitted(at, of, n)
  if of ~= epoch then
    return -- a zombie's
  end
  if not nowms then
    local t = call('TIME')
    nowms = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
  end
  local who, live = {}, {}
  for i = at, at + 3 * n - 1, 3 do
    local visitor, ticket, expires = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    if tonumber(ticket) > served then -- else a repetition
      served = tonumber(ticket)
      who[#who + 1] = visitor
      if tonumber(expires) > nowms then
        call('SET', grants .. visitor, ticket, 'PXAT', expires)
        live[#live + 1] = expires
        live[#live + 1] = visitor
      end
    end
  end
  if #who == 0 then
    return
  end
  call('ZREM', LINE, unpack(who)) -- absorbs whatever they entered before this record
  if haskeys then call('HDEL', KEYDIGESTS, unpack(who)) end
  if pendings > 0 then
    call('HDEL', PENDING, unpack(who))
    resweep = true
  end
  if #live > 0 then call('ZADD', ACTIVE, unpack(live)) end
end

local i = 5
while i <= #ARGV do
  local op = ARGV[i]
  if op == 'E' then
    local n = tonumber(ARGV[i + 1])
    run(i + 2, i + 1 + 2 * n)
    i = i + 2 + 2 * n
  elseif op == 'K' then
    entered(ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    i = i + 4
  elseif op == 'L' then
    left(ARGV[i + 1])
    i = i + 2
  elseif op == 'C' then
    epoch = ARGV[i + 1]
    i = i + 2
  elseif op == 'S' then
    keep = ARGV[i + 1] == '1'
    i = i + 2
  elseif op == 'A' then
    local n = tonumber(ARGV[i + 2])
    admitted(i + 3, ARGV[i + 1], n)
    i = i + 3 + 3 * n
  elseif op == 'R' then
    if call('GET', grants .. ARGV[i + 1]) == ARGV[i + 2] then
      call('UNLINK', grants .. ARGV[i + 1])
      call('ZREM', ACTIVE, ARGV[i + 1])
    end
    i = i + 3
  elseif op == 'X' then
    if ARGV[i + 1] == epoch then
      ending, over = ARGV[i + 2] .. ':1:' .. ARGV[i + 3], true
      served = tonumber(ARGV[i + 2])
      call('UNLINK', LINE, KEYDIGESTS, PENDING)
      haskeys, pendings, resweep, st[5] = false, 0, false, '0'
    end
    i = i + 4
  elseif op == 'O' then
    if ARGV[i + 1] == epoch and over then
      ending, over = string.gsub(ending, '^(%d+):1:', '%1:0:'), false
    end
    i = i + 2
  end
end

-- A pop is forgotten once served has reached its ticket; a pop whose record was void stays. Once a batch is enough: who
-- pops or asks sees the batch whole.
local gone = st[5] or '0'
if resweep then
  local n = 0
  local all = call('HGETALL', PENDING)
  for j = 1, #all, 2 do
    local ticket = string.match(all[j + 1], '^%d+')
    if tonumber(ticket) <= served then
      if stands(all[j + 1]) then
        call('ZREM', LINE, all[j])
        call('HDEL', KEYDIGESTS, all[j])
      end
      call('HDEL', PENDING, all[j])
    elseif not stands(all[j + 1]) then
      n = n + 1
    end
  end
  gone = string.format('%.0f', n)
end
call('HSET', STATE, 'served', string.format('%.0f', served), 'epoch', epoch, 'rule', keep and '1' or '0', 'gone', gone,
  'end', ending, 'draw', st[7] or '', 'topic', ARGV[3] ~= '' and ARGV[3] or st[4] or '')
return {1, ARGV[2]}
