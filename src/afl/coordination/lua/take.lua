-- uses: clock queue
-- rarely: state entry expiry aging selection
-- Reserves up to `most` messages, each under 16 characters of the given tokens, or takes them away (not `keep`).
-- With ids of subscriptions, only messages of their types.
-- An integer when there is nothing: microseconds until something may be due, -1 for never. Otherwise
-- "<deadline> <came back> <length of report> <length of value> ...\n<report><values>".
local most, visible = tonumber(ARGV[FIRST]), tonumber(ARGV[FIRST + 1])
local tokens, keep = ARGV[FIRST + 2], ARGV[FIRST + 3] == '1'
local subscriptions, aging = ARGV[FIRST + 4], tonumber(ARGV[10])
local rare, back, at, due, changed, first_of = nil, 0, now, nil, not keep, nil
if subscriptions ~= '' then
  rare = rarely()
  first_of = rare.selection(subscriptions)
end

local first = redis.call('ZRANGE', DEADLINES, 0, 0, 'WITHSCORES')
if first[1] and tonumber(first[2]) <= now then
  rare = rare or rarely()
  back = rare.return_expired(100)
  changed = true
  first = redis.call('ZRANGE', DEADLINES, 0, 0, 'WITHSCORES')
elseif not keep then
  rare = rare or rarely()
  rare.check_kinds()
end

-- Whether it is there. Should the server's time have gone back, the queue's own says so.
local function is_there(time)
  if time <= at then return true end
  rare = rare or rarely()
  local _, clock = rare.read_state()
  at = clock
  if time <= at then return true end
  if not due or time < due then due = time end
  return false
end

-- The message that is next: the first of the highest line that has one, unless waiting counts.
local function next_one()
  local heads = {}
  for index = 1, 3 do
    local line = KEYS[index + 1]
    local head = first_of and first_of(line) or redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
    local time = tonumber(head[2])
    if time and is_there(time) then
      if aging == 0 then return index, head[1], head[2] end
      heads[#heads + 1] = {index = index, member = head[1], score = head[2], time = time}
    end
  end
  if #heads > 0 then
    rare = rare or rarely()
    local head = rare.eldest(heads, at, aging)
    return head.index, head.member, head.score
  end
end

local deadline = digits(now + visible)
local values, lengths, taken = {}, {}, 0
while taken < most do
  local index, member, score = next_one()
  if not index then break end
  local line = KEYS[index + 1]
  local value = redis.call('HGET', MESSAGES, member)
  local expires = value and string.match(value, '^%d+ %d %d+ (%d+) ') or '0'
  if not value then
    redis.call('ZREM', line, member)
  elseif expires ~= '0' and tonumber(expires) <= now then
    rare = rare or rarely()
    rare.check_kinds()
    redis.call('ZREM', line, member)
    rare.forget(member)
    audit('lapsed', member)
    changed = true
  else
    redis.call('ZREM', line, member)
    if keep then
      local token = 'res_' .. string.sub(tokens, taken * 16 + 1, taken * 16 + 16)
      local hold = string.sub('951', index, index) .. ':' .. score .. ':' .. expires .. ':' .. member
      local held = redis.pcall('HSET', RESERVED, token, hold)
      if type(held) == 'table' and held.err then
        redis.call('ZADD', line, score, member)
        return held
      end
      redis.call('ZADD', DEADLINES, deadline, token)
    else
      rare.forget(member)
    end
    taken = taken + 1
    values[taken] = value
    lengths[taken] = #value
  end
end
if changed then settle(redis.call('HLEN', MESSAGES)) end
-- What came back may be of a type that is not handed over here.
local left = first_of and back or back - taken
if left > 0 then redis.call('PUBLISH', ARGV[1], digits(left)) end
local report = rare and rare.obituary() or ''
if taken == 0 and back == 0 and report == '' then
  if first[1] then due = math.min(due or math.huge, tonumber(first[2])) end
  return due and math.max(0, due - now) or -1
end
return deadline .. ' ' .. back .. ' ' .. #report .. ' ' .. table.concat(lengths, ' ') .. '\n'
  .. report .. table.concat(values)
