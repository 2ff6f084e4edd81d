-- uses: clock queue
-- 1 stored, 2 a duplicate, 0 the queue is full, -2 the queue is full but may hold what has lapsed.
-- A volatile queue is in no index and has no trail; it ends by itself after so many milliseconds.
-- Of the arguments (see Parcel) the type is not needed: it stands in the body.
local id, priority, body = ARGV[FIRST], ARGV[FIRST + 2], ARGV[FIRST + 3]
local delay, ttl, volatile = tonumber(ARGV[FIRST + 4]), tonumber(ARGV[FIRST + 5]), tonumber(ARGV[FIRST + 6])
local window, line = tonumber(ARGV[11]), KEYS[priority == '5' and 3 or priority == '9' and 2 or 4]
local EXPIRING, SEEN = KEYS[11], KEYS[12]

local state = redis.call('HGET', MESSAGES, '')
local count = state and redis.call('HLEN', MESSAGES) - 1 or 0
if window > 0 then
  local ends = redis.call('ZSCORE', SEEN, id)
  if ends and tonumber(ends) > now then return 2 end
end
if count >= tonumber(ARGV[3]) then
  return redis.call('ZCARD', EXPIRING) > 0 and -2 or 0
end
if ttl > 0 then redis.call('ZCARD', EXPIRING) end

local sequence, clock = string.match(state or '0 0', '^(%d+) (%d+)$')
sequence, clock = tonumber(sequence) + 1, tonumber(clock)
local at = stamp
if now > clock then clock = now else at = digits(clock) end
local member = string.format('%016d:', sequence) .. id
local expires = ttl > 0 and digits(now + ttl) or '0'
if volatile == 0 then audit('sent', member) end
local lined = redis.pcall('ZADD', line, delay == 0 and at or digits(clock + delay), member)
if type(lined) == 'table' and lined.err then
  if volatile == 0 and AUDIT_LENGTH > 0 then redis.call('RPOP', AUDIT) end
  return lined
end
redis.call('HSET', MESSAGES, '', digits(sequence) .. ' ' .. at,
  member, '0 ' .. priority .. ' ' .. stamp .. ' ' .. expires .. ' 0\n' .. body)
if count == 0 and volatile == 0 then redis.pcall('SADD', QUEUES, ARGV[2]) end
if ttl > 0 then redis.call('ZADD', EXPIRING, expires, member) end
if window > 0 then
  redis.call('ZREMRANGEBYSCORE', SEEN, '-inf', stamp)
  redis.call('ZADD', SEEN, digits(now + window), id)
  redis.call('PEXPIRE', SEEN, digits(math.ceil(window / 1000)))
end
if volatile > 0 then
  for _, key in ipairs({MESSAGES, line, EXPIRING}) do redis.call('PEXPIRE', key, volatile) end
end
redis.call('PUBLISH', ARGV[1], '1')
return 1
