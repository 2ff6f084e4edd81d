-- The dead that a heartbeat found: told of once, listed while their record is kept, then forgotten.
--
-- KEYS: agents index (set), capabilities index (set), beats (zset), dead (zset), then for each agent its record and
--       its capabilities
-- ARGV: event channel (empty: none), then the names
-- Gives the names of those whose record is still there.

local INDEX, CAPABLE, BEATS, DEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local channel = ARGV[1]
local clock = redis.call('TIME')
local seconds = string.format('%.3f', clock[1] + clock[2] / 1000000)

local listed = {}
for i = 2, #ARGV do
  local name, key, capable = ARGV[i], KEYS[2 * i + 1], KEYS[2 * i + 2]
  if redis.call('EXISTS', key) == 0 then
    redis.call('SREM', INDEX, key)
    redis.call('SREM', CAPABLE, capable)
    redis.call('ZREM', BEATS, name)
    redis.call('ZREM', DEAD, name)
  else
    if redis.call('ZADD', DEAD, 'NX', seconds, name) == 1 and channel ~= '' then
      redis.call('PUBLISH', channel, '{"event":"died","agent":' .. cjson.encode(name) .. ',"at":' .. seconds .. '}')
    end
    listed[#listed + 1] = name
  end
end
return listed
