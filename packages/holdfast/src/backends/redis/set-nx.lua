--[[
  The lock that everybody knows: SET key value NX PX, and a deletion of the key only by whoever's value is in it. Any
  other program that locks this way on the same key excludes this one and is excluded by it.

  The value is "<id> <fence> <who>", or "<id>:<round> <fence> <who>" where votes are counted over several servers. The
  fence is the server's time in microseconds when the key was taken. A key whose value looks otherwise is held by
  another program; its value is a secret of that program, and never leaves the server: a digest stands for it.

  KEYS  the key of each step
  ARGV  '1' if the server shall say who it is and how long it runs; then the steps: a letter and what belongs to it
]]

-- Redis before 7 replicates scripts as text, and refuses to write after TIME unless told to replicate the effects.
if redis.replicate_commands then redis.replicate_commands() end

local TIME = redis.call('TIME')
local NOW = TIME[1] .. string.format('%06d', tonumber(TIME[2]))

-- What claim ids have at least, so that a value of somebody else is not mistaken for one of ours.
local ID_LENGTH = 32

-- Numbers are written out in full: Lua would turn a long one into 1.7e+15.
local function text(number) return string.format('%.0f', number) end

-- An error keeps the words of the server, in every version.
local function call(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then error({ err = reply.err }) end
  return reply
end

local function parse(value)
  local token, fence = string.match(value, '^(%S+) (%d+) %[')
  if not token then return nil end
  local id, round = string.match(token, '^([^:]+):?(%d*)$')
  if not id then return nil end
  return { id = id, round = round, fence = fence }
end

local function is_older(round, than) return (tonumber(round) or 0) < (tonumber(than) or 0) end

-- <now> <what is left, or - where it never expires> <digest> <the value, where it is one of ours>
local function found(key, value)
  local left = call('PTTL', key)
  local held = parse(value)
  local shown = held and #held.id >= ID_LENGTH and value or ''
  return table.concat({ NOW, left < 0 and '-' or text(left), redis.sha1hex(value), shown }, ' ')
end

-- a <id> <round> <ttl> <lease of a waiting claim> <who>
-- A claim that has the key already is answered for, so a command that is sent twice neither takes it twice nor blocks
-- itself. Asking is not a heartbeat, but a lease that runs low is made whole. A later round takes over from an earlier
-- one of the same claim; the earlier one can then neither take it back nor delete it.
local function attempt(key, at)
  local id, round, ttl, lease, who = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), ARGV[at + 4]
  local value = table.concat({ round == '' and id or id .. ':' .. round, NOW, who }, ' ')
  if call('SET', key, value, 'NX', 'PX', text(ttl)) then return 'g ' .. NOW .. ' ' .. text(ttl) end
  local stored = call('GET', key)
  local held = parse(stored)
  if not held or held.id ~= id or is_older(round, held.round) then return 'n ' .. found(key, stored) end
  -- Below 0 it has lost its expiry, and must have one again: nobody would free it after a crash.
  local left = call('PTTL', key)
  local lasts = text(math.max(ttl, left))
  if is_older(held.round, round) then
    call('SET', key, value, 'PX', lasts)
    return 'g ' .. NOW .. ' ' .. lasts
  end
  if left >= 0 and left >= lease / 2 then return 'g ' .. held.fence .. ' ' .. text(left) end
  call('PEXPIRE', key, lasts)
  return 'g ' .. held.fence .. ' ' .. lasts
end

-- The entry of a claim; nil where the key is free, is somebody else's, or is no lock at all any more.
local function own(key, id)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    if string.find(value.err, '^WRONGTYPE') then return nil end
    error({ err = value.err })
  end
  local held = value and parse(value)
  return held and held.id == id and held or nil
end

-- r <id> <round> <fence, or - for any> <lease>: never shorter, never revived, never another place
local function renew(key, at)
  local held = own(key, ARGV[at])
  local fence, lease = ARGV[at + 2], tonumber(ARGV[at + 3])
  if not held or held.round ~= ARGV[at + 1] or (fence ~= '-' and held.fence ~= fence) then return '0' end
  -- Without an expiry, what is left is -1, so it gets one here as well.
  if lease > call('PTTL', key) then call('PEXPIRE', key, text(lease)) end
  return '1'
end

-- x <id> <round, or * for any>
local function release(key, at)
  local held = own(key, ARGV[at])
  local round = ARGV[at + 1]
  if not held or (round ~= '*' and held.round ~= round) then return '0' end
  call('DEL', key)
  return '1'
end

-- v: what is there, for people who look; nothing is changed
local function view(key)
  local value = call('GET', key)
  return value and found(key, value) or ''
end

-- d <digest>: for operators; deletes exactly what was seen
local function evict(key, at)
  local value = call('GET', key)
  if not value or redis.sha1hex(value) ~= ARGV[at] then return '0' end
  call('DEL', key)
  return '1'
end

-- <run id> <uptime in s>; nothing where this user may not ask
local function server()
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then return '' end
  local run, uptime = string.match(info, 'run_id:(%x+)'), string.match(info, 'uptime_in_seconds:(%d+)')
  return run and uptime and run .. ' ' .. uptime or ''
end

local STEPS = { a = attempt, r = renew, x = release, v = view, d = evict }
local LENGTHS = { a = 6, r = 5, x = 3, v = 1, d = 2 }

local answers = {}
local at = 2
for step = 1, #KEYS do
  local letter = ARGV[at]
  -- What is wrong with one key must not take the answers of the others away.
  local ok, answer = pcall(STEPS[letter], KEYS[step], at + 1)
  if not ok then answer = '! ' .. (type(answer) == 'table' and answer.err or tostring(answer)) end
  answers[step] = answer
  at = at + LENGTHS[letter]
end
if ARGV[1] == '1' then answers[#KEYS + 1] = server() end
return answers
