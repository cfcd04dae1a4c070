-- load: puts a folded line beside the view, chunk by chunk, and lets it take the view's place in one step.
--
-- KEYS  1 line  2 seq  3 keys  4 state  5 pending  6 active
--       7 load: HASH token, step: whose load is under way, and how many chunks it has put
--       8 load:line  9 load:keys  10 load:active: what becomes of 1, 3 and 6
-- ARGV  1 what to do  2 the token of the load  then
--       begin    3 seq to be loaded  4 the topic's id  5 '1': also over a view that is not behind; '2': and of another topic
--       put      3 number of the chunk, from 1  4 prefix of the grant keys  5… members, at most 1,000:
--                  W n (ticket visitor)×n         who waits
--                  K n (visitor key)×n            digests of idempotency keys
--                  G n (visitor ticket expiresMs)×n    grants
--       finish   3 seq  4 the topic's id  5 as for begin  6 number of chunks  7 served  8 epoch  9 rule
--                10 how many wait  11 how many of them have a key  12 draw  13 end, as the state holds them
--                14 '' or epoch:batch, what must have been asked for last: somebody may have popped since the view was read
--       drop
-- Returns {'ok'}; {'busy', ms} while another's load is under way, for so long at least; {'lost'} when this load is not the one
--       under way, or Redis does not hold what was put; {'topic', id} when the view was built from another topic;
--       {'ahead', seq} when the view has applied so much already. Except for 'ok', the view and what was put are as before.
--
-- The view serves and is applied to all the while: until finish nothing of it changes but grants, which the log has told.
-- What takes its place is the view of an empty Redis to which the log was applied up to seq: nobody is pending, and no
-- batch was asked for, so a leader whose last record comes after seq is told that the view is behind.
--
-- Safe to run twice: begin starts anew, a chunk that was put is not put again, finish remembers the token in the state.
-- Safe against a second load: one token holds, until 5 s after its last chunk by Redis' clock, so that a loader that died
-- keeps nobody waiting; a loader that was only slow is told 'lost'. Safe when Redis goes back in time: chunks are numbered,
-- and finish counts. Validates before the first write; the first write of each is one that a full Redis refuses.
-- Chunks that nobody finishes go away by themselves after ten minutes.

local LINE, SEQ, KEYDIGESTS, STATE, PENDING, ACTIVE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local LOAD, NEWLINE, NEWKEYS, NEWACTIVE = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local HOLD, KEEP = 5000, 600000
local call = redis.call
local op, token = ARGV[1], ARGV[2]

local holder = call('HGET', LOAD, 'token')

-- unfit says why seq must not take the view's place.
local function unfit(seq, topic, anyway)
  local built = call('HGET', STATE, 'topic')
  if built and built ~= '' and topic ~= '' and built ~= topic and anyway ~= '2' then
    return {'topic', built}
  end
  local applied = call('GET', SEQ) or '0'
  if tonumber(applied) >= tonumber(seq) and anyway == '0' then
    return {'ahead', applied}
  end
end

if op == 'begin' then
  if holder and holder ~= token then
    return {'busy', tostring(call('PTTL', LOAD))}
  end
  local no = unfit(ARGV[3], ARGV[4], ARGV[5])
  if no then return no end
  call('HSET', LOAD, 'token', token, 'step', '0')
  call('PEXPIRE', LOAD, HOLD)
  call('UNLINK', NEWLINE, NEWKEYS, NEWACTIVE)
  return {'ok'}
end

if op == 'finish' and call('HGET', STATE, 'loaded') == token then
  return {'ok'} -- the reply was lost
end
if holder ~= token then
  return {'lost'}
end

if op == 'drop' then
  call('UNLINK', LOAD, NEWLINE, NEWKEYS, NEWACTIVE)
  return {'ok'}
end

local step = tonumber(call('HGET', LOAD, 'step'))

if op == 'put' then
  if tonumber(ARGV[3]) == step then
    return {'ok'}
  end
  if tonumber(ARGV[3]) ~= step + 1 then
    return {'lost'}
  end
  local i = 5
  while i <= #ARGV do
    local n = tonumber(ARGV[i + 1])
    if ARGV[i] == 'W' then
      call('ZADD', NEWLINE, unpack(ARGV, i + 2, i + 1 + 2 * n))
      call('PEXPIRE', NEWLINE, KEEP)
      i = i + 2 + 2 * n
    elseif ARGV[i] == 'K' then
      call('HSET', NEWKEYS, unpack(ARGV, i + 2, i + 1 + 2 * n))
      call('PEXPIRE', NEWKEYS, KEEP)
      i = i + 2 + 2 * n
    else
      local t = call('TIME')
      local nowms = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
      for j = i + 2, i + 1 + 3 * n, 3 do
        local visitor, ticket, expires = ARGV[j], ARGV[j + 1], ARGV[j + 2]
        if tonumber(expires) > nowms then
          call('ZADD', NEWACTIVE, expires, visitor)
          call('SET', ARGV[4] .. visitor, ticket, 'PXAT', expires)
        end
      end
      call('PEXPIRE', NEWACTIVE, KEEP)
      i = i + 2 + 3 * n
    end
  end
  call('HSET', LOAD, 'step', ARGV[3])
  call('PEXPIRE', LOAD, HOLD)
  return {'ok'}
end

-- finish
if step ~= tonumber(ARGV[6]) or call('ZCARD', NEWLINE) ~= tonumber(ARGV[10]) or call('HLEN', NEWKEYS) ~= tonumber(ARGV[11]) then
  return {'lost'}
end
if ARGV[14] ~= '' then
  local asked = call('HMGET', STATE, 'fence', 'batch')
  if (asked[1] or '0') .. ':' .. (asked[2] or '0') ~= ARGV[14] then
    return {'lost'}
  end
end
local no = unfit(ARGV[3], ARGV[4], ARGV[5])
if no then
  call('UNLINK', LOAD, NEWLINE, NEWKEYS, NEWACTIVE)
  return no
end
call('SET', SEQ, ARGV[3])
call('HDEL', STATE, 'fence', 'batch')
call('HSET', STATE, 'served', ARGV[7], 'epoch', ARGV[8], 'rule', ARGV[9], 'gone', '0', 'draw', ARGV[12],
  'end', ARGV[13], 'topic', ARGV[4], 'loaded', token)
call('UNLINK', LOAD, LINE, KEYDIGESTS, PENDING, ACTIVE)
for _, pair in ipairs({{NEWLINE, LINE}, {NEWKEYS, KEYDIGESTS}, {NEWACTIVE, ACTIVE}}) do
  if call('EXISTS', pair[1]) == 1 then
    call('PERSIST', pair[1])
    call('RENAME', pair[1], pair[2])
  end
end
return {'ok'}
