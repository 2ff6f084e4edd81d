-- uses: clock queue state entry expiry
-- Ready per line (9, 5, 1), waiting in all lines, in flight, dead, the oldest ready score's age, time until the next.
-- Messages whose time to live is over are deleted first.
local before = redis.call('HLEN', MESSAGES)
drop_lapsed(10000)
local left = redis.call('HLEN', MESSAGES)
if left < before then settle(left) end
local _, at = read_state()
local ready, waiting, oldest, due = {}, 0, -1, -1
for index, line in ipairs(LINES) do
  ready[index] = redis.call('ZCOUNT', line, '-inf', digits(at))
  waiting = waiting + redis.call('ZCARD', line)
  local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
  if first[1] and tonumber(first[2]) <= at then oldest = math.max(oldest, at - tonumber(first[2])) end
  local later = redis.call('ZRANGEBYSCORE', line, '(' .. digits(at), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if later[1] then
    local wait = tonumber(later[2]) - at
    if due < 0 or wait < due then due = wait end
  end
end
return {ready[1], ready[2], ready[3], waiting, redis.call('HLEN', RESERVED), redis.call('LLEN', DEAD), oldest, due}
