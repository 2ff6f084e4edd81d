-- What a receiver with subscriptions is handed: messages of the types that those of the given ids ask for.
-- A function that gives the first of them in a line, as ZRANGE does; nil when all subscriptions have ended.
local function selection(ids)
  local wanted = nil
  for id in string.gmatch(ids, '[^,]+') do
    for kind in string.gmatch(redis.call('HGET', KEYS[10], id) or '', '[^,]+') do
      wanted = wanted or {}
      wanted[kind] = true
    end
  end
  if not wanted then return nil end

  -- Within a text every quotation mark has a backslash before it, so the first match is the field itself: the type
  -- stands before the payload. What has no type is handed over, to be found unreadable.
  local function is_wanted(member)
    local value = redis.call('HGET', MESSAGES, member)
    local kind = value and string.match(value, '"message_type":"(%l+)"')
    return not kind or wanted[kind]
  end

  local passed = {} -- how many at the front of a line are of other types; they stay there
  return function(line)
    local start = passed[line] or 0
    while true do
      local page = redis.call('ZRANGE', line, start, start + 99, 'WITHSCORES')
      for index = 1, #page, 2 do
        if is_wanted(page[index]) then
          passed[line] = start + (index - 1) / 2
          return {page[index], page[index + 1]}
        end
      end
      start = start + #page / 2
      passed[line] = start
      if #page < 200 then return {} end
    end
  end
end
