--[[
  The rule of core/record-rule.ts, run where the record is. A record is one text of five lines, and a call touches no other
  key, so it works on every node of a cluster. record-value.ts writes and reads the same:

      hf1 <state> <fence> <attempt> <taken> <created> <span>
      <owner>
      <fingerprint, or nothing>
      <progress behind a `=`, or nothing>
      <result behind a `=`, or nothing>

      state     i: issued, p: in progress, c: completed, f: failed, r: released; x: forgotten, which stays for a moment only,
                so that the fence of the next claim is higher
      fence     of the last claim: never lower than the one before
      attempt   how many claims there were
      taken     1 if the last claim was taken from an owner that had not finished
      created   when the record was made, in ms since 1970
      span      how long the key outlives the lease of its owner, in ms; of no meaning unless it is in progress

  When the key expires is all that is kept of time: while it is in progress, that is when the lease ends and `span` after it.
  So the lease begins when the server writes it, whatever wrote it, and only the server's clock says when it is over.

  KEYS  the record
  ARGV  a letter, and what belongs to it; `life` is how long the key stays, and `-` for ever:

      c <owner> <lease> <span> <may take over: 1 or 0> <only what is there: 1 or 0> <fingerprint, or nothing>
      f <owner> <fence> <state> <life> <line of the result>
      r <owner> <fence> <lease>
      s <owner> <fence> <line of the progress>
      u <owner> <fence>
      v
      i <life>
      t <count: 1 or 0>
      d <how long it is still known that there was one>
      h

  What a script costs is mostly the commands it calls: an end does with two of them.
]]

-- Redis before 7 replicates scripts as text, and refuses to write after TIME unless told to replicate the effects.
if not redis.REDIS_VERSION_NUM then redis.replicate_commands() end

local call, format, sub = redis.call, string.format, string.sub
local KEY, WHAT = KEYS[1], ARGV[1]

-- Beyond this, a double no longer counts in steps of one, and two claims could get one fence.
local FENCE_MAX = 9007199254740991

local FOREIGN = '! format'

-- Whether this user may do all that will be needed, on a key that is not there, so that nothing comes of it.
if WHAT == 'h' then
  call('GET', KEY)
  call('SET', KEY, '', 'XX')
  call('PEXPIRE', KEY, 1)
  redis.call('PTTL', KEY)
  redis.call('TIME')
  return '1'
end

local text = call('GET', KEY)

-- What a script is asked for most: that somebody ends what is in progress. Nothing stands behind its progress yet.
if WHAT == 'f' and text then
  local begin = 'hf1 p ' .. ARGV[3] .. ' '
  if sub(text, 1, #begin) == begin and string.find(text, '\n' .. ARGV[2] .. '\n', #begin, true) then
    local ended = 'hf1 ' .. ARGV[4] .. sub(text, 6) .. ARGV[6]
    if ARGV[5] == '-' then call('SET', KEY, ended) else call('SET', KEY, ended, 'PX', ARGV[5]) end
    return '1'
  end
end

local state, fence, attempt, taken, created, span, owner, print, progress, rest
if text then
  state, fence, attempt, taken, created, span, owner, print, progress, rest =
    string.match(text, '^hf1 ([cfiprx]) (%d+) (%d+) ([01]) (%d+) (%d+)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n()')
  if not state then return FOREIGN end
end
local isThere = state ~= nil and state ~= 'x'

-- Something is written even where nothing changes, so that WAIT speaks of what was there before.
local function writeAgain()
  call('SET', KEY, text, 'KEEPTTL')
end

-- Ended before, just so, by the same owner; or it is somebody else's.
if WHAT == 'f' then
  if not isThere or owner ~= ARGV[2] or fence ~= ARGV[3] or state ~= ARGV[4] then return '0' end
  writeAgain()
  return '1'
end

if WHAT == 'c' and isThere then
  local asked = ARGV[7]
  if print ~= '' and asked ~= '' and print ~= asked and sub(print, 1, 3) == sub(asked, 1, 3) then return 'm' end
  if state == 'c' or state == 'f' then return text end
end

local left = 0
if state == 'p' then
  local ttl = call('PTTL', KEY)
  -- Somebody has taken its expiry away, and with it all that was known of its lease.
  if ttl < 0 then return FOREIGN end
  left = ttl - span
end

-- Numbers are written by %.0f: joined to a text as they are, Lua would give 14 digits of a float.
local function head(to, withFence, withAttempt, isTaken, since, withSpan)
  return 'hf1 ' .. to .. ' ' .. withFence .. ' ' .. withAttempt .. ' ' .. isTaken .. ' ' .. since .. ' ' .. withSpan .. '\n'
end

-- The first line is another, and everything else stays, also how long it does.
local function change(to, withAttempt)
  local from = string.find(text, '\n', 1, true)
  call('SET', KEY, head(to, fence, withAttempt, taken, created, span) .. sub(text, from + 1), 'KEEPTTL')
end

-- In microseconds, and what the next fence is.
local function clock()
  local time = call('TIME')
  local now = time[1] * 1000000 + time[2]
  local last = fence and fence + 1 or 0
  return now, math.max(last, now)
end

if WHAT == 'c' then
  if not isThere and ARGV[6] == '1' then return 'n' end
  local was = '0'
  if state == 'p' then
    if left > 0 then
      local about = fence .. ' ' .. attempt .. ' '
      if owner ~= ARGV[2] then return 'p ' .. about .. format('%.0f', left) end
      -- It finds itself.
      writeAgain()
      return 'c ' .. about .. taken .. ' ' .. format('%.0f', left) .. ' ' .. created .. ' ' .. progress
    end
    if ARGV[5] ~= '1' then return 'a ' .. fence .. ' ' .. attempt end
    was = '1'
  end
  local now, next = clock()
  if next > FENCE_MAX then return '! fence' end
  if not isThere then
    attempt, created, print, progress = 0, format('%.0f', math.floor(now / 1000)), '', ''
  end
  local about = format('%.0f', next) .. ' ' .. format('%.0f', attempt + 1) .. ' ' .. was .. ' '
  call('SET', KEY, 'hf1 p ' .. about .. created .. ' ' .. ARGV[4] .. '\n' .. ARGV[2] .. '\n'
    .. (print == '' and ARGV[7] or print) .. '\n' .. progress .. '\n', 'PX', format('%.0f', ARGV[3] + ARGV[4]))
  return 'c ' .. about .. ARGV[3] .. ' ' .. created .. ' ' .. progress
end

if WHAT == 'i' then
  if isThere then return '0' end
  local now, next = clock()
  call('SET', KEY, head('i', format('%.0f', next), '0', '0', format('%.0f', math.floor(now / 1000)), '0') .. '\n\n\n', 'PX',
    ARGV[2])
  return '1'
end

if not isThere then return WHAT == 't' and 'n 0' or '0' end

if WHAT == 'v' then return { text, format('%.0f', math.max(0, left)) } end

if WHAT == 't' then
  local uses = format('%.0f', attempt + 1)
  if state == 'i' then
    change('c', uses)
    return 's ' .. uses
  end
  if ARGV[2] ~= '1' then return 'u ' .. attempt end
  change(state, uses)
  return 'u ' .. uses
end

if WHAT == 'd' then
  call('SET', KEY, head('x', fence, '0', '0', created, '0') .. '\n\n\n', 'PX', ARGV[2])
  return '1'
end

-- What is left changes a claim, and only that of its owner, while it is in progress.
if state ~= 'p' or owner ~= ARGV[2] or fence ~= ARGV[3] then return '0' end

if WHAT == 's' then
  local from = rest - #progress - 1
  call('SET', KEY, sub(text, 1, from - 1) .. ARGV[4] .. sub(text, rest - 1), 'KEEPTTL')
  return '1'
end

-- A claim that did not count is taken back: nothing was done under it. Where it was taken over, it stays abandoned.
if WHAT == 'u' then
  if taken == '1' then call('PEXPIRE', KEY, span) else change('r', attempt) end
  return '1'
end

-- r: never shorter, and never revived. It is written in any case, so that WAIT has something to wait for.
if left <= 0 then return '0' end
call('PEXPIRE', KEY, format('%.0f', math.max(left, ARGV[4]) + span))
return '1'
