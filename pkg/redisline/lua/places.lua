-- places: where visitors stand, all at one moment.
--
-- KEYS  1 line  2 seq  3 state  4 pending
-- ARGV  the visitors (at most 1,000)
-- Returns {seq, served, epoch, rule, draw, end, total, ahead, ticket, ahead, ticket, …}, the last two for each visitor in turn;
--       draw and end as the state holds them; ahead is -1 for who does not wait. Who is being admitted counts as waiting until the log says otherwise.
--
-- Reads only.

local LINE, PENDING = KEYS[1], KEYS[4]
local call = redis.call
local st = call('HMGET', KEYS[3], 'served', 'epoch', 'rule', 'gone', 'draw', 'end')
local popped = call('HLEN', PENDING)
local standing = popped - tonumber(st[4] or '0')
local out = {call('GET', KEYS[2]) or '0', st[1] or '0', st[2] or '0', st[3] or '0', st[5] or '', st[6] or '',
  call('ZCARD', LINE) + standing}
local all
for i = 1, #ARGV do
  local rank = call('ZRANK', LINE, ARGV[i])
  if rank then
    out[#out + 1] = rank + standing
    out[#out + 1] = call('ZSCORE', LINE, ARGV[i])
  else
    local p = popped > 0 and call('HGET', PENDING, ARGV[i])
    if p and string.sub(p, -1) == '1' then
      all = all or call('HVALS', PENDING)
      local mine = string.match(p, '^%d+')
      local ahead = 0
      for _, q in ipairs(all) do
        if string.sub(q, -1) == '1' and tonumber(string.match(q, '^%d+')) < tonumber(mine) then ahead = ahead + 1 end
      end
      out[#out + 1] = ahead
      out[#out + 1] = mine
    else
      out[#out + 1] = -1
      out[#out + 1] = '0'
    end
  end
end
return out
