local EXPIRING = KEYS[11]
local LINES = {KEYS[2], KEYS[3], KEYS[4]}
local LINE = {['9'] = KEYS[2], ['5'] = KEYS[3], ['1'] = KEYS[4]}

-- "<last sequence> <clock>". The queue's time never goes back, so that what is sent later never stands before what was
-- sent earlier.
local function read_state()
  local sequence, clock = string.match(redis.call('HGET', MESSAGES, '') or '0 0', '^(%d+) (%d+)$')
  clock = tonumber(clock)
  return tonumber(sequence), now > clock and now or clock
end

-- Reads every key that may be written: one of another kind is found before anything has changed.
local function check_kinds()
  redis.call('HLEN', MESSAGES)
  redis.call('HLEN', RESERVED)
  redis.call('ZCARD', DEADLINES)
  for _, line in ipairs(LINES) do redis.call('ZCARD', line) end
  redis.call('LLEN', DEAD)
  redis.call('LLEN', AUDIT)
  redis.call('ZCARD', EXPIRING)
  redis.call('SCARD', QUEUES)
end
