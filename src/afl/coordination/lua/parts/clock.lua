-- now: the server's time in microseconds; stamp: the same as text. It stands still while a script runs.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- A number that large as text; Lua's own conversion keeps 14 digits only.
local function digits(number)
  return string.format('%.0f', number)
end
local stamp = digits(now)
