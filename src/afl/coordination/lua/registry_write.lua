-- Heartbeats: records are written, indexes repaired, and who died since is found; one run for all agents of a process.
--
-- KEYS: agents index (set), capabilities index (set), beats (zset: name -> when it dies), dead (zset: name -> since),
--       then for each agent its record and its capabilities
-- ARGV: TTL, how long records are kept (milliseconds), event channel (empty: none), then for each agent its name,
--       record (JSON object), capabilities (JSON, empty: none) and event (JSON object, empty: none)
-- Gives the names of the dead that are the caller's to look after; nobody else gets them for one TTL.

local INDEX, CAPABLE, BEATS, DEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ttl, keep, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local SWEPT = 100

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local seconds = string.format('%.3f', now / 1000)

local function with(object, field)
  return string.sub(object, 1, -2) .. ',"' .. field .. '":' .. seconds .. '}'
end

local function tell(event)
  if channel ~= '' and event ~= '' then redis.call('PUBLISH', channel, with(event, 'at')) end
end

-- An index of another kind is found before anything has changed.
redis.call('SCARD', INDEX)
redis.call('SCARD', CAPABLE)
redis.call('ZCARD', BEATS)
redis.call('ZCARD', DEAD)

local position = 5
for i = 4, #ARGV, 4 do
  local name, record, capabilities, event = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local key, capable = KEYS[position], KEYS[position + 1]
  position = position + 2
  redis.call('SET', key, with(record, 'last_heartbeat'), 'PX', keep)
  redis.call('SADD', INDEX, key)
  if capabilities == '' then
    redis.call('DEL', capable)
    redis.call('SREM', CAPABLE, capable)
  else
    redis.call('SET', capable, capabilities, 'PX', keep)
    redis.call('SADD', CAPABLE, capable)
  end
  redis.call('ZADD', BEATS, now + ttl, name)
  if redis.call('ZREM', DEAD, name) == 1 then tell('{"event":"revived","agent":' .. cjson.encode(name) .. '}') end
  tell(event)
end

local due = redis.call('ZRANGEBYSCORE', BEATS, '-inf', now, 'LIMIT', 0, SWEPT)
for _, name in ipairs(due) do redis.call('ZADD', BEATS, now + ttl, name) end
return due
