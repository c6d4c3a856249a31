--[[
  Runs one command on a key, but only with a fence that is not older than the highest that was seen for that key.

  KEYS  the guarded key; the key beside it that remembers the highest fence
  ARGV  the fence; how long it is remembered in ms, or 0 for ever; then the command without its key, or nothing at all
        where the fence is only to be raised

  Answers { '1', what the command answered } or { '0', the highest fence }.
]]

-- Fences have up to 19 digits, which is beyond what Lua's numbers can tell apart, so they stay texts. Without zeros in
-- front the longer one is the higher one. They are compared byte by byte, because Lua's own `<` goes by the locale.
local function is_lower(a, b)
  if #a ~= #b then return #a < #b end
  for i = 1, #a do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return false
end

local function is_fence(value)
  return type(value) == 'string' and #value <= 20 and (value == '0' or string.find(value, '^[1-9]%d*$') ~= nil)
end

local fence, memory = ARGV[1], ARGV[2]
if not is_fence(fence) then return redis.error_reply('HOLDFAST damaged: the given fence') end

local highest = redis.pcall('GET', KEYS[2])
local is_refused = type(highest) == 'table' and string.sub(highest.err or '', 1, 9) ~= 'WRONGTYPE'
if is_refused then return highest end
if highest and not is_fence(highest) then return redis.error_reply('HOLDFAST damaged: the highest fence') end

if highest and is_lower(fence, highest) then return { '0', highest } end

-- The fence is raised before the command runs: a command that fails must not leave the door open for an older one.
if memory ~= '0' then
  redis.call('SET', KEYS[2], fence, 'PX', memory)
elseif highest ~= fence then
  redis.call('SET', KEYS[2], fence)
end

if #ARGV == 2 then return { '1', false } end

local answer = redis.pcall(ARGV[3], KEYS[1], unpack(ARGV, 4))
-- An error is given back as the server said it, and not as an element of an answer, where clients overlook it.
if type(answer) == 'table' and answer.err then return answer end
return { '1', answer }
