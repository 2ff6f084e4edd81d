-- Which breakers are still known; those of which nothing is left are forgotten.
-- KEYS: registry (set), then for each breaker its state and its metrics. ARGV: the names
local known = {}
for i = 1, #ARGV do
  if redis.call('EXISTS', KEYS[2 * i], KEYS[2 * i + 1]) > 0 then
    known[#known + 1] = ARGV[i]
  else
    redis.call('SREM', KEYS[1], ARGV[i])
  end
end
return known
