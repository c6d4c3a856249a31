--[[
  The rule of core/record-rule.ts, run where the record is. A record is one hash, and a call touches no other key, so it
  works on every node of a cluster:

      fmt          1; a hash without it, or with another, was not written by this version and is left alone
      state        issued, in-progress, completed, failed or released
      owner        the id of the last claim
      fence        of the last claim: never lower than the one before, nor than the clock in microseconds
      attempt      how many claims there were
      taken        1 if the last claim was taken from an owner that had not finished
      lease        when the lease of the owner ends, in ms since 1970; of no meaning unless it is in progress
      created      when the record was made, in ms since 1970
      fingerprint, progress, result   as the client wrote them, and absent where there is none

  The key itself expires when the record may go: with the retention, and while it is in progress with the lease on top.

  KEYS  the record
  ARGV  a letter, and what belongs to it:

      c <owner> <lease> <retention> <may take over: 1 or 0> <only what is there: 1 or 0> [fingerprint]
      f <owner> <fence> <state> <retention> [result]
      r <owner> <fence> <lease> <retention>
      s <owner> <fence> <progress>
      u <owner> <fence>
      v
      i <retention>
      t <count: 1 or 0>
      d
      h

  Times are in ms, and a retention of `-` is for ever. What a script costs is mostly the commands it calls, so a first claim
  does with five of them, a replay with one, and an end with three.
]]

-- Redis before 7 replicates scripts as text, and refuses to write after TIME unless told to replicate the effects.
if not redis.REDIS_VERSION_NUM then redis.replicate_commands() end

local call, format = redis.call, string.format
local KEY, WHAT = KEYS[1], ARGV[1]

-- Beyond this, a double no longer counts in steps of one, and two claims could get one fence.
local FENCE_MAX = 9007199254740991

local FOREIGN = '! format'

-- What most calls find, a claim whose work is done, is answered before anything is made that only others need.
local found
if WHAT == 'c' then
  found = call('HMGET', KEY, 'fmt', 'state', 'fence', 'attempt', 'fingerprint', 'created', 'result')
  local state, kept, asked = found[2], found[5], ARGV[7]
  if found[1] == '1' then
    if kept and asked and kept ~= asked and string.sub(kept, 1, 3) == string.sub(asked, 1, 3) then return 'm' end
    if state == 'completed' or state == 'failed' then
      local result = found[7]
      return (state == 'completed' and 's ' or 'e ') .. found[3] .. ' ' .. found[4] .. ' ' .. found[6]
        .. (result and ' =' .. result or ' -')
    end
  end
end

-- A hash of somebody else has no format. Nothing at all has none, either.
local function unknown(fmt)
  if fmt or call('EXISTS', KEY) == 1 then return true end
  return false
end

local function keep(lease, retention)
  if retention == '-' then call('PERSIST', KEY) else call('PEXPIRE', KEY, format('%.0f', lease + retention)) end
end

if WHAT == 'f' then
  found = call('HMGET', KEY, 'fmt', 'state', 'owner', 'fence')
  if found[1] ~= '1' then return unknown(found[1]) and FOREIGN or '0' end
  if found[3] ~= ARGV[2] or found[4] ~= ARGV[3] then return '0' end
  if found[2] == ARGV[4] then
    -- Nothing changes, but it is written, so that WAIT speaks of what was there before.
    call('HSET', KEY, 'owner', ARGV[2])
    return '1'
  end
  if found[2] ~= 'in-progress' then return '0' end
  if ARGV[6] then
    call('HSET', KEY, 'state', ARGV[4], 'result', ARGV[6])
  else
    call('HSET', KEY, 'state', ARGV[4])
  end
  keep(0, ARGV[5])
  return '1'
end

local TIME = call('TIME')
-- Numbers are written by %.0f: joined to a text as they are, Lua would give 14 digits of a float.
local CLOCK = TIME[1] * 1000000 + TIME[2]
local NOW = math.floor(CLOCK / 1000)

if WHAT == 'c' then
  local owner, lease, retention, asked = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[7]
  local state, kept = found[2], found[5]
  if found[1] ~= '1' then
    if unknown(found[1]) then return FOREIGN end
    if ARGV[6] == '1' then return 'n' end
    local fence, now = format('%.0f', CLOCK), format('%.0f', NOW)
    local till = format('%.0f', NOW + lease)
    if asked then
      call('HSET', KEY, 'fmt', '1', 'state', 'in-progress', 'owner', owner, 'fence', fence, 'attempt', '1', 'taken', '0',
        'lease', till, 'created', now, 'fingerprint', asked)
    else
      call('HSET', KEY, 'fmt', '1', 'state', 'in-progress', 'owner', owner, 'fence', fence, 'attempt', '1', 'taken', '0',
        'lease', till, 'created', now)
    end
    -- A key that is new has no expiry to be taken away.
    if retention ~= '-' then call('PEXPIRE', KEY, format('%.0f', lease + retention)) end
    return 'c ' .. fence .. ' 1 0 ' .. ARGV[3] .. ' ' .. now .. ' -'
  end
  local about = found[3] .. ' ' .. found[4] .. ' '
  local more = call('HMGET', KEY, 'owner', 'lease', 'taken', 'progress')
  local progress = more[4] and ' =' .. more[4] or ' -'
  local taken = '0'
  if state == 'in-progress' then
    local left = more[2] - NOW
    if left > 0 then
      if more[1] ~= owner then return 'p ' .. about .. format('%.0f', left) end
      -- It finds itself. It is written once more, so that WAIT speaks of what was there before.
      call('HSET', KEY, 'owner', owner)
      return 'c ' .. about .. more[3] .. ' ' .. format('%.0f', left) .. ' ' .. found[6] .. progress
    end
    if ARGV[5] ~= '1' then return 'a ' .. found[3] .. ' ' .. found[4] end
    taken = '1'
  end
  local last = found[3] + 1
  if last > FENCE_MAX then return '! fence' end
  local fence, attempt = format('%.0f', math.max(last, CLOCK)), format('%.0f', found[4] + 1)
  call('HSET', KEY, 'state', 'in-progress', 'owner', owner, 'fence', fence, 'attempt', attempt, 'taken', taken, 'lease',
    format('%.0f', NOW + lease))
  if asked and not kept then call('HSET', KEY, 'fingerprint', asked) end
  if found[7] then call('HDEL', KEY, 'result') end
  keep(lease, retention)
  return 'c ' .. fence .. ' ' .. attempt .. ' ' .. taken .. ' ' .. ARGV[3] .. ' ' .. found[6] .. progress
end

-- Whether this user may do all that will be needed, on a key that is not there, so that nothing comes of it.
if WHAT == 'h' then
  call('HMGET', KEY, 'fmt')
  call('EXISTS', KEY)
  call('HDEL', KEY, 'fmt')
  call('PERSIST', KEY)
  call('PEXPIRE', KEY, 1)
  call('DEL', KEY)
  return '1'
end

found = call('HMGET', KEY, 'fmt', 'state', 'owner', 'fence', 'attempt', 'lease', 'taken')
local state = found[2]
if found[1] ~= '1' then
  if unknown(found[1]) then return FOREIGN end
  if WHAT == 't' then return 'n 0' end
  if WHAT ~= 'i' then return '0' end
  call('HSET', KEY, 'fmt', '1', 'state', 'issued', 'owner', '', 'fence', format('%.0f', CLOCK), 'attempt', '0', 'taken', '0',
    'created', format('%.0f', NOW))
  keep(0, ARGV[2])
  return '1'
end

if WHAT == 'v' then
  local texts = call('HMGET', KEY, 'created', 'fingerprint', 'progress', 'result')
  local left = state == 'in-progress' and format('%.0f', math.max(0, found[6] - NOW)) or false
  return { state, found[3], found[4], found[5], found[7], left, texts[1], texts[2], texts[3], texts[4] }
end

if WHAT == 't' then
  if state == 'issued' then
    call('HSET', KEY, 'state', 'completed', 'attempt', format('%.0f', found[5] + 1))
    return 's ' .. format('%.0f', found[5] + 1)
  end
  if ARGV[2] ~= '1' then return 'u ' .. found[5] end
  call('HSET', KEY, 'attempt', format('%.0f', found[5] + 1))
  return 'u ' .. format('%.0f', found[5] + 1)
end

if WHAT == 'i' then return '0' end

if WHAT == 'd' then return format('%.0f', call('DEL', KEY)) end

-- What is left changes a claim, and only that of its owner, while it is in progress.
if state ~= 'in-progress' or found[3] ~= ARGV[2] or found[4] ~= ARGV[3] then return '0' end

if WHAT == 's' then
  call('HSET', KEY, 'progress', ARGV[4])
  return '1'
end

-- A claim that did not count is taken back: nothing was done under it. Where it was taken over, it stays abandoned.
if WHAT == 'u' then
  if found[7] == '1' then
    call('HSET', KEY, 'lease', format('%.0f', NOW))
  else
    call('HSET', KEY, 'state', 'released')
  end
  return '1'
end

-- r: never shorter, and never revived. It is written in any case, so that WAIT has something to wait for.
local left = found[6] - NOW
if left <= 0 then return '0' end
local lease = math.max(left, ARGV[4])
call('HSET', KEY, 'lease', format('%.0f', NOW + lease))
keep(lease, ARGV[5])
return '1'
