-- The transitions of a circuit breaker. One call is one transition, on the server's clock.
--
-- KEYS: state (hash), slots (zset: half-open call -> end of its lease), window (hash: bucket -> outcomes),
--       metrics (hash), registry (set of names)
-- ARGV: verb, configuration (JSON, milliseconds), then what the verb takes:
--       enter ID NAME | leave ID EPOCH OUTCOME | renew ID EPOCH | force open|closed NAME | reset |
--       look [stored]: with the configuration of whoever called through it last
--
-- The epoch grows with every change of state: what a call of an older epoch came to is counted, and moves nothing.

local STATE, SLOTS, WINDOW, METRICS, REGISTRY = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local BUCKETS = 20
local METRICS_KEPT = 604800000

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local config = cjson.decode(ARGV[1] == 'look' and ARGV[3] and redis.call('HGET', METRICS, 'config') or ARGV[2])

local function load()
  local f = redis.call('HMGET', STATE, 'state', 'epoch', 'failure_count', 'successes', 'changed_at', 'forced')
  return {
    state = f[1] or 'closed', epoch = tonumber(f[2] or 0), failures = tonumber(f[3] or 0),
    successes = tonumber(f[4] or 0), changed_at = tonumber(f[5] or 0), forced = f[6] == '1', changes = 0,
  }
end

local function save(s)
  redis.call('HSET', STATE, 'state', s.state, 'epoch', s.epoch, 'failure_count', s.failures,
    'successes', s.successes, 'changed_at', s.changed_at, 'forced', s.forced and '1' or '0')
  if s.forced then redis.call('PERSIST', STATE) else redis.call('PEXPIRE', STATE, config.keep) end
  if s.changes > 0 then
    redis.call('DEL', SLOTS, WINDOW)
    redis.call('HINCRBY', METRICS, 'state_changes', s.changes)
    redis.call('PEXPIRE', METRICS, METRICS_KEPT)
  end
end

local function move(s, state, at)
  s.state, s.changed_at, s.forced = state, at, false
  s.epoch = math.max(s.epoch + 1, now)
  s.failures, s.successes = 0, 0
  s.changes = s.changes + 1
end

-- An episode that did not decide in its time has ended; the circuit is open since then.
local function lapse(s)
  if s.state == 'half_open' and now >= s.changed_at + config.recovery then
    move(s, 'open', s.changed_at + config.recovery)
  end
end

local function ripen(s)
  if s.state == 'open' and not s.forced and now >= s.changed_at + config.timeout then
    move(s, 'half_open', now)
  end
end

local function running(s)
  if s.state ~= 'half_open' or s.changes > 0 then return 0 end
  return redis.call('ZCOUNT', SLOTS, '(' .. now, '+inf')
end

local function retry_after(s)
  if s.state ~= 'open' then return 0 end
  if s.forced then return -1 end
  return s.changed_at + config.timeout - now
end

local function standing(s, permitted)
  return { permitted and 1 or 0, s.state, s.epoch, s.failures, s.successes, running(s),
    s.changed_at, s.forced and 1 or 0, retry_after(s), now }
end

local function lease_end(s)
  return math.min(now + config.lease, s.changed_at + config.recovery)
end

-- Failures within the window, and whether they are enough. Buckets that are too old go on the way.
local function judge_window()
  local size = math.ceil(config.window / BUCKETS)
  local oldest = math.floor(now / size) - BUCKETS + 1
  local failed, total = 0, 0
  local fields = redis.call('HGETALL', WINDOW)
  for i = 1, #fields, 2 do
    local bucket, kind = string.match(fields[i], '^(%d+):(%a)$')
    if tonumber(bucket) < oldest then
      redis.call('HDEL', WINDOW, fields[i])
    else
      total = total + fields[i + 1]
      if kind == 'f' then failed = failed + fields[i + 1] end
    end
  end
  return failed, failed >= config.threshold and failed >= config.rate * total
end

local function count_in_window(s, failed)
  local size = math.ceil(config.window / BUCKETS)
  local first = redis.call('HINCRBY', WINDOW, math.floor(now / size) .. (failed and ':f' or ':s'), 1) == 1
  redis.call('PEXPIRE', WINDOW, config.window + size)
  if not failed and not first then return false end
  local enough
  s.failures, enough = judge_window()
  return failed and enough
end

local function count_in_row(s, failed)
  s.failures = failed and s.failures + 1 or 0
  return s.failures >= config.threshold
end

local function leave_closed(s, failed)
  local before = s.failures
  local open
  if config.window > 0 then open = count_in_window(s, failed) else open = count_in_row(s, failed) end
  if open then move(s, 'open', now) end
  return open or s.failures ~= before
end

local function leave_half_open(s, outcome, id)
  if redis.call('ZREM', SLOTS, id) == 0 or outcome == 'none' then return false end
  if outcome == 'failure' then
    move(s, 'open', now)
  else
    s.successes = s.successes + 1
    if s.successes >= config.successes then move(s, 'closed', now) end
  end
  return true
end

local verbs = {}

function verbs.enter(id, name)
  local s = load()
  redis.call('SADD', REGISTRY, name)
  redis.call('HINCRBY', METRICS, 'total_calls', 1)
  redis.call('HSET', METRICS, 'config', ARGV[2])
  redis.call('PEXPIRE', METRICS, METRICS_KEPT)
  lapse(s)
  ripen(s)
  if s.changes > 0 then save(s) end
  local permitted = s.state == 'closed'
  if s.state == 'half_open' then
    s.changes = 0
    permitted = s.successes + running(s) < config.max_calls
    if permitted then
      redis.call('ZADD', SLOTS, lease_end(s), id)
      redis.call('PEXPIRE', SLOTS, config.keep)
    end
  end
  if not permitted then redis.call('HINCRBY', METRICS, 'rejected_calls', 1) end
  return standing(s, permitted)
end

function verbs.leave(id, epoch, outcome)
  local s = load()
  if outcome ~= 'none' then
    local failed = outcome == 'failure'
    local count = redis.call('HINCRBY', METRICS, failed and 'failed_calls' or 'successful_calls', 1)
    if count == 1 then redis.call('PEXPIRE', METRICS, METRICS_KEPT) end  -- a reset may have removed them meanwhile
    redis.call('HSET', METRICS, failed and 'last_failure_time' or 'last_success_time', now)
  end
  lapse(s)
  local touched = s.changes > 0
  if s.epoch == tonumber(epoch) then
    -- A place whose lease has ended is somebody else's.
    redis.call('ZREMRANGEBYSCORE', SLOTS, '-inf', now)
    if s.state == 'half_open' then
      touched = leave_half_open(s, outcome, id)
    elseif outcome ~= 'none' then
      touched = leave_closed(s, outcome == 'failure')
    end
  end
  if touched then save(s) end
  return standing(s, true)
end

function verbs.renew(id, epoch)
  local s = load()
  lapse(s)
  local held = redis.call('ZSCORE', SLOTS, id)
  if s.state ~= 'half_open' or s.epoch ~= tonumber(epoch) or not held or tonumber(held) <= now then return 0 end
  redis.call('ZADD', SLOTS, lease_end(s), id)
  return 1
end

function verbs.force(state, name)
  local s = load()
  redis.call('SADD', REGISTRY, name)
  redis.call('HSETNX', METRICS, 'config', ARGV[2])
  redis.call('PEXPIRE', METRICS, METRICS_KEPT)
  local before = s.state
  move(s, state, now)
  if before == state then s.changes = 0 end
  s.forced = state == 'open'
  redis.call('DEL', SLOTS, WINDOW)
  save(s)
  return standing(s, true)
end

function verbs.reset()
  local s = load()
  move(s, 'closed', now)
  redis.call('DEL', METRICS)
  s.changes = 0
  redis.call('DEL', SLOTS, WINDOW)
  save(s)
  return standing(s, true)
end

function verbs.look()
  local s = load()
  lapse(s)
  ripen(s)
  if s.state == 'closed' and config.window > 0 then s.failures = judge_window() end
  local permitted = s.state == 'closed' or (s.state == 'half_open' and s.successes + running(s) < config.max_calls)
  return { standing(s, permitted), redis.call('HGETALL', METRICS) }
end

return verbs[ARGV[1]](ARGV[3], ARGV[4], ARGV[5])
