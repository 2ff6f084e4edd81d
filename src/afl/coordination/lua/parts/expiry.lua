local RETRIES = tonumber(ARGV[4])
local EXPIRED = '"reservation expired"'

local function is_lapsed(entry)
  return entry.expires > 0 and entry.expires <= now
end

-- Messages whose time to live is over and that nobody holds are gone. What is held goes when it comes back.
local function drop_lapsed(most)
  local members = redis.call('ZRANGEBYSCORE', EXPIRING, '-inf', stamp, 'LIMIT', 0, most)
  if #members == 0 then return end
  check_kinds()
  for _, member in ipairs(members) do
    local waiting = 0
    for _, line in ipairs(LINES) do waiting = waiting + redis.call('ZREM', line, member) end
    redis.call('ZREM', EXPIRING, member)
    if waiting > 0 then
      redis.call('HDEL', MESSAGES, member)
      audit('lapsed', member)
    end
  end
end

-- Back into its line, or away when its time is over.
local function put_back(member, entry, score, event)
  if is_lapsed(entry) then
    forget(member)
    audit('lapsed', member)
    return false
  end
  redis.call('HSET', MESSAGES, member, written(entry))
  redis.call('ZADD', LINE[entry.priority], score, member)
  audit(event, member)
  return true
end

-- A reservation that ended counts as an attempt. How many came back, and how many reservations were looked at.
local function return_expired(most)
  local tokens = redis.call('ZRANGEBYSCORE', DEADLINES, '-inf', stamp, 'LIMIT', 0, most)
  if #tokens == 0 then return 0, 0 end
  check_kinds()
  local _, clock = read_state()
  local back, score = 0, digits(clock)
  for _, token in ipairs(tokens) do
    local hold = redis.call('HGET', RESERVED, token)
    local _, _, member = read_hold(hold or '')
    local value = member and redis.call('HGET', MESSAGES, member)
    redis.call('HDEL', RESERVED, token)
    redis.call('ZREM', DEADLINES, token)
    if value then
      local entry = read_entry(value)
      if entry then
        entry.attempts = entry.attempts + 1
        entry.error = EXPIRED
      end
      if not entry then
        bury(member, value, nil, '"unreadable"')
      elseif entry.attempts > RETRIES then
        bury(member, value, entry, EXPIRED)
      elseif put_back(member, entry, score, 'expired') then
        back = back + 1
      end
    end
  end
  return back, #tokens
end
