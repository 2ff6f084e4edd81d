-- uses: clock queue state entry
-- A message away by its id, wherever it stands: 1, or 0 when it was not there. The id is taken as seen from now on, so
-- that within the window nobody sends it after all. Members are found by walking the queue: this is done seldom.
local id, window = ARGV[FIRST], tonumber(ARGV[11])
local SEEN = KEYS[12]
check_kinds()
redis.call('ZCARD', SEEN)
local gone = 0
for _, member in ipairs(redis.call('HKEYS', MESSAGES)) do
  if string.sub(member, 18) == id and member ~= '' then
    for _, line in ipairs(LINES) do redis.call('ZREM', line, member) end
    local held = redis.call('HGETALL', RESERVED)
    for at = 1, #held, 2 do
      local _, _, reserved = read_hold(held[at + 1])
      if reserved == member then
        redis.call('HDEL', RESERVED, held[at])
        redis.call('ZREM', DEADLINES, held[at])
      end
    end
    forget(member)
    audit('withdrawn', member)
    gone = 1
  end
end
if window > 0 then
  redis.call('ZADD', SEEN, digits(now + window), id)
  redis.call('PEXPIRE', SEEN, digits(math.ceil(window / 1000)))
end
if gone == 1 then settle(redis.call('HLEN', MESSAGES)) end
return gone
