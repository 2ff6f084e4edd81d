-- uses: clock queue state entry expiry
-- 0 when the token is unknown or too late; otherwise "retry <delay> <attempts>", "dead <attempts> <id>" or "lapsed".
local token, is_final, problem = ARGV[FIRST], ARGV[FIRST + 1] == '1', ARGV[FIRST + 2]
local reason, share = ARGV[FIRST + 3], tonumber(ARGV[FIRST + 4])
local base, factor, longest = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local function backoff(attempts)
  if base == 0 then return 0 end
  return math.floor(math.min(base * factor ^ (attempts - 1), longest) * share)
end

local deadline = redis.call('ZSCORE', DEADLINES, token)
if not deadline or tonumber(deadline) <= now then return 0 end
check_kinds()
local _, _, member = read_hold(redis.call('HGET', RESERVED, token) or '')
local value = member and redis.call('HGET', MESSAGES, member)
redis.call('HDEL', RESERVED, token)
redis.call('ZREM', DEADLINES, token)
if not value then return 0 end
local entry = read_entry(value)
if entry then
  entry.attempts = entry.attempts + 1
  entry.error = problem
end
if is_final or not entry or entry.attempts > RETRIES then
  bury(member, value, entry, reason)
  settle(redis.call('HLEN', MESSAGES))
  return 'dead ' .. buried[1]
end
local delay = backoff(entry.attempts)
local _, clock = read_state()
if not put_back(member, entry, digits(clock + delay), 'retried') then
  settle(redis.call('HLEN', MESSAGES))
  return 'lapsed'
end
redis.call('PUBLISH', ARGV[1], '1')
return 'retry ' .. digits(delay) .. ' ' .. entry.attempts
