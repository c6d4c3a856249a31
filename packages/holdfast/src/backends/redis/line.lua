--[[
  The line rule of core/line.ts, run where the line is: a claim is admitted when the weights up to and including its
  own fit the limit. One call works through a batch of steps, each on a key of its own, and each step is atomic with
  the others, so what a client sends together costs one round trip.

  A resource is one text. Its first line is about the whole, and every claim has a line of its own, in order of arrival:

      <kind> <limit> <fence> <sum> <until>
      <id> <fence> <weight> <expires> <channel> <who>

  `fence` is the last one that was given out. It outlives the claims for a while, so that fences keep growing when the
  server's clock is set back. `sum` is the weight of all claims that are stored, expired or not: if even all of them
  together fit the limit, everybody is admitted and nobody else needs to be looked at. `until` is when the last of them
  ends; the key never expires before. `who` is as the client wrote it and is never read here.

  A queue of many claims is a sorted set under the same key instead, so that the cost of a step does not grow with the
  queue: see long-line.lua. A text becomes a sorted set when an attempt finds LONG claims in it, and a sorted set becomes
  a text again when SHORT are left.

  KEYS  the key of each step
  ARGV  how long `fence` outlives the claims in ms; then '1' if every step shall write, so that WAIT has something to
        wait for, or '0', with what the names of the channels begin with right behind it; then the steps:

      a <id> <kind> <limit> <weight> <ttl> <life> <may wait: 1 or 0> <lease of a waiting claim> <channel> <who>
      r <id> <fence> <lease>, and more of the same for other claims of the key
      x <id>
      v

  `life` is the ttl and how long `fence` outlives it. One step is answered by a text, several by a list of them. The answer
  of a sorted set begins with `~`. A step that begins with `~` says that the client expects a sorted set: reading a key as
  the wrong type works, but the server counts an error each time.

  What a script costs is mostly the commands it calls, the conversions between text and number and the functions it makes,
  so the two steps that are nearly all of them do with little of each.
]]

-- Redis before 7 replicates scripts as text, and refuses to write after TIME unless told to replicate the effects.
if not redis.REDIS_VERSION_NUM then redis.replicate_commands() end

-- Numbers are written by %d: joined to a text as they are, Lua would give 14 digits of a float, and far slower.
local format, match = string.format, string.match
local TIME = redis.call('TIME')
local CLOCK = TIME[1] * 1000000 + TIME[2]
local NOW = math.floor(CLOCK / 1000)
local MEMORY = ARGV[1]

-- Beyond this, a double no longer counts in steps of one, and two claims could get one fence.
local FENCE_MAX = 9007199254740991

-- Everything but a claim that is alone. What is needed only here is made only when it is needed.
local function steps_in_line()
  local ATTEMPT = '^a (%S+) (%S+ (%d+)) (%d+) (%d+) %d+ (%d) (%d+) (.*)$'

  -- A text of so many claims becomes a sorted set, and a sorted set of so few a text. The gap keeps it from going to and fro.
  local LONG, SHORT = 32, 12

  -- A text that is longer is read as a whole, so that expired claims are removed even while no claim waits.
  local TEXT_BYTES = 4096

  -- The score of an end in a sorted set is below those of all fences, and a double still counts it in steps of one.
  local EXPIRY_SHIFT = 9007199254740992

  local TOUCH = string.sub(ARGV[2], 1, 1) == '1'
  local CHANNELS = string.sub(ARGV[2], 2)

  local function damaged() error({ err = 'HOLDFAST damaged: the key does not hold a line' }) end

  -- The last of it is where the lines of the claims begin.
  local function parse_head(value)
    local shape, limit, fence, sum, last, body = match(value, '^(%S+ (%d+)) (%d+) (%d+) (%d+)\n()')
    if not shape then damaged() end
    return shape, tonumber(limit), fence, tonumber(sum), tonumber(last), body
  end

  local function write(key, shape, fence, sum, last, lines)
    local life = sum > 0 and format('%d', math.max(last - NOW, 0) + MEMORY) or MEMORY
    local value = format('%s %s %d %d\n', shape, fence, sum, last) .. lines
    redis.call('SET', key, value, 'PX', life)
    return value
  end

  -- The fence is the place in the queue: it grows with every claim on this name.
  local function next_fence(last_fence)
    local number = math.max(last_fence + 1, CLOCK)
    if number > FENCE_MAX then error({ err = 'HOLDFAST clock: the server time is beyond what a fence can count' }) end
    return format('%d', number)
  end

  -- Gives the claim the last place. `sum`, `last` and `lines` are those of the claims before it.
  local function join(key, claim, lease, last_fence, sum, last, lines)
    local fence = next_fence(last_fence)
    local expires = NOW + lease
    local line = format('%s %s %d %d %s\n', claim.id, fence, claim.weight, expires, claim.tail)
    write(key, claim.shape, fence, sum + claim.weight, math.max(last, expires), lines .. line)
    return fence
  end

  -- Where the line of a claim begins, and where the part behind its id does; nil if it has none.
  local function find_claim(value, id)
    local start, stop = string.find(value, '\n' .. id .. ' ', 1, true)
    if not start then return nil end
    return start + 1, stop + 1
  end

  -- The rule. How many, counted from the front, are admitted.
  local function admitted_count(entries, limit)
    local sum = 0
    for i = 1, #entries do
      sum = sum + entries[i].weight
      if sum > limit then return i - 1 end
    end
    return #entries
  end

  local function parse_entries(value, body)
    local entries = {}
    local lines = string.gmatch(string.sub(value, body), '(%S+) (%d+) (%d+) (%d+) (%S+) ([^\n]*)\n')
    for id, fence, weight, expires, channel, who in lines do
      entries[#entries + 1] = {
        id = id, fence = fence, weight = tonumber(weight), expires = tonumber(expires), channel = channel, who = who,
      }
    end
    return entries
  end

  local function format_entries(entries)
    local lines = {}
    for i, entry in ipairs(entries) do
      local numbers = format('%s %d %d', entry.fence, entry.weight, entry.expires)
      lines[i] = entry.id .. ' ' .. numbers .. ' ' .. entry.channel .. ' ' .. entry.who .. '\n'
    end
    return table.concat(lines)
  end

  -- A message that may not be sent is only slow: whoever waits asks again by itself.
  local function publish(channel, message) redis.pcall('PUBLISH', CHANNELS .. channel, message) end

  -- The flag says whether a claim waits behind it, so that the process does not hand it over locally for longer than a turn.
  local function tell(messages, is_wanted)
    local flag = is_wanted and ' 1' or ' 0'
    for _, message in ipairs(messages) do publish(message[1], message[2] .. flag) end
  end

  -- The channel of a process gets one message for each of its claims that is admitted by what happened here.
  local function announce(entries, count, was_admitted, is_wanted)
    local messages = {}
    for i = 1, count do
      local entry = entries[i]
      if not was_admitted[entry.id] then
        messages[#messages + 1] = { entry.channel, 'g ' .. entry.id .. ' ' .. entry.fence }
      end
    end
    tell(messages, is_wanted or count < #entries)
  end

  -- The first who has to wait tells those who hold that they are waited for; those behind need not repeat it.
  local function announce_wanted(entries, count, channel)
    for i = 1, count do
      local entry = entries[i]
      if entry.channel ~= channel then publish(entry.channel, 'w ' .. entry.id) end
    end
  end

  -- The whole line without the claims that have expired: those are absent for every decision. `was_admitted` is who was
  -- admitted while they still counted, so that whoever is admitted by their end is told when the step is settled.
  local function read_line(value)
    local shape, limit, fence, sum, _, body = parse_head(value)
    local stored = parse_entries(value, body)
    local line = { shape = shape, limit = limit, fence = fence, entries = {}, sum = 0, last = 0, was_admitted = {} }
    local admitted = admitted_count(stored, limit)
    for i, entry in ipairs(stored) do
      sum = sum - entry.weight
      if i <= admitted then line.was_admitted[entry.id] = true end
      if entry.expires > NOW then
        line.entries[#line.entries + 1] = entry
        line.sum = line.sum + entry.weight
        line.last = math.max(line.last, entry.expires)
      end
    end
    if sum ~= 0 then damaged() end
    line.changed = #line.entries < #stored
    return line
  end

  -- Writes what a step has changed, and tells who is admitted by it.
  local function settle(key, line)
    if not line.changed then return end
    write(key, line.shape, line.fence, line.sum, line.last, format_entries(line.entries))
    announce(line.entries, admitted_count(line.entries, line.limit), line.was_admitted)
  end

  local function first_end(entries, count)
    local first = nil
    for i = 1, count do
      local left = entries[i].expires - NOW
      if not first or left < first then first = left end
    end
    return first or '-'
  end

  local function holder(entries) return entries[1] and entries[1].who or '' end

  local function waiting(fence, lease, weight, entries, ahead)
    local numbers = format('w %s %d %d %d ', fence, lease, weight, ahead)
    return numbers .. first_end(entries, ahead) .. ' ' .. holder(entries)
  end

  -- The claim stands already. It keeps its place; its weight may only shrink; its lease is extended when it runs low.
  local function stand(key, line, index, claim)
    local entries = line.entries
    local entry = entries[index]
    local before = entry.weight
    entry.weight = math.min(before, claim.weight)
    line.sum = line.sum - before + entry.weight
    local count = admitted_count(entries, line.limit)
    local left = entry.expires - NOW
    local extend = left < claim.lease / 2
    if extend then
      entry.expires = NOW + math.max(index <= count and claim.ttl or claim.lease, left)
      line.last = math.max(line.last, entry.expires)
    end
    line.changed = line.changed or extend or TOUCH or entry.weight ~= before
    -- Its own answer tells this claim, so it gets no message.
    line.was_admitted[entry.id] = true
    settle(key, line)
    left = entry.expires - NOW
    if index > count then return waiting(entry.fence, left, entry.weight, entries, index - 1) end
    return format('g %s %d %d %d', entry.fence, left, count < #entries and 1 or 0, entry.weight)
  end

  -- Makes the text a sorted set. false if this user may not use one: then it stays a text, which is only slow. Each command
  -- is tried on the text, where it fails for the type and changes nothing, before the text is deleted.
  local function lengthen(key, line)
    local function refused(...) return string.find(redis.pcall(...).err or '', 'WRONGTYPE', 1, true) == nil end
    if refused('ZADD', key, 0, 'h') or refused('ZREM', key, 'h') or refused('ZREMRANGEBYSCORE', key, 0, 0) then return false end
    if refused('ZRANGE', key, 0, 0) or refused('ZMSCORE', key, 'h') or refused('ZRANK', key, 'h') then return false end
    if refused('ZCARD', key) then return false end
    local life = format('%d', math.max(line.last - NOW, 0) + MEMORY)
    if type(redis.pcall('PTTL', key)) == 'table' or type(redis.pcall('PEXPIRE', key, life)) == 'table' then return false end
    settle(key, line)
    if type(redis.pcall('DEL', key)) == 'table' then return false end
    local entries, limit = line.entries, line.limit
    local count = admitted_count(entries, limit)
    local admitted = 0
    for i = 1, count do admitted = admitted + entries[i].weight end
    local boundary = count > 0 and entries[count].fence or '0'
    local members = { '-inf', format('h%s %s %d %s', line.shape, line.fence, admitted, boundary) }
    for i, entry in ipairs(entries) do
      local id, at = entry.id, #members
      members[at + 1], members[at + 2] = format('%d', entry.expires - EXPIRY_SHIFT), 'e' .. id
      members[at + 3], members[at + 4] = entry.fence, 'i' .. id
      members[at + 5] = entry.fence
      members[at + 6] = format('d%s %d ', id, entry.weight) .. entry.channel .. ' ' .. entry.who
      -- A text that an earlier version has written may have thousands, and a call takes only so many arguments.
      if #members > 1000 or i == #entries then
        redis.call('ZADD', key, unpack(members))
        members = {}
      end
    end
    redis.call('PEXPIRE', key, life)
    return true
  end

  -- nil if the text has become a sorted set, which is then asked instead.
  local function attempt_behind(key, claim, value)
    local line = read_line(value)
    local entries = line.entries
    local ahead = #entries
    if ahead >= LONG and lengthen(key, line) then return nil end
    if ahead > 0 and line.shape ~= claim.shape then
      settle(key, line)
      return 'm ' .. line.shape
    end
    for index, entry in ipairs(entries) do
      if entry.id == claim.id then return stand(key, line, index, claim) end
    end
    local count = admitted_count(entries, claim.limit)
    local fits = count == ahead and line.sum + claim.weight <= claim.limit
    if not fits and not claim.waits then
      settle(key, line)
      return 'n ' .. first_end(entries, ahead) .. ' ' .. holder(entries)
    end
    local lease = fits and claim.ttl or claim.lease
    local fence = join(key, claim, lease, line.fence, line.sum, line.last, format_entries(entries))
    if line.changed then announce(entries, count, line.was_admitted, not fits) end
    if fits then return format('g %s %d 0 %d', fence, lease, claim.weight) end
    if count == ahead then announce_wanted(entries, count, match(claim.tail, '^%S+')) end
    return waiting(fence, lease, claim.weight, entries, ahead)
  end

  local function attempt(key, step, value)
    local id, asked, most, weight, ttl, waits, lease, tail = match(step, ATTEMPT)
    local claim = {
      id = id, shape = asked, limit = tonumber(most), weight = tonumber(weight), ttl = tonumber(ttl),
      waits = waits == '1', lease = tonumber(lease), tail = tail,
    }
    local shape, limit, fence, sum, last, body = parse_head(value)
    -- Everybody who is stored fits beside the newcomer, expired or not, so nobody needs to be looked at.
    if shape == asked and sum + weight <= limit and #value < TEXT_BYTES and not find_claim(value, id) then
      fence = join(key, claim, claim.ttl, fence, sum, last, string.sub(value, body))
      return 'g ' .. fence .. ' ' .. ttl .. ' 0 ' .. weight
    end
    return attempt_behind(key, claim, value)
  end

  -- Several claims of one key, or one with waiters behind it. The answer has a letter for each: whether it is there no more
  -- (0), is renewed and waits (1), or is renewed and admitted (g). So a renewal makes good for a message that was lost.
  local function renew_in_line(key, step, value)
    local line = read_line(value)
    local entries = line.entries
    local count = admitted_count(entries, line.limit)
    local found, answers = {}, {}
    for index, entry in ipairs(entries) do found[entry.id] = index end
    for id, place, lease in string.gmatch(string.sub(step, 3), '(%S+) (%d+) (%d+)') do
      local index = found[id]
      local entry = entries[index or 0]
      if entry and entry.fence == place then
        local expires = math.max(entry.expires, NOW + lease)
        line.changed = line.changed or TOUCH or expires > entry.expires
        line.last = math.max(line.last, expires)
        entry.expires = expires
        answers[#answers + 1] = index <= count and 'g' or '1'
      else
        answers[#answers + 1] = '0'
      end
    end
    settle(key, line)
    return table.concat(answers)
  end

  -- Never shorter, never revived, never another place.
  local function renew(key, step, value)
    if not value then return (string.gsub(string.sub(step, 3), '%S+ %d+ %d+ ?', '0')) end
    local shape, limit, last_fence, sum, last, body = parse_head(value)
    local id, place, lease = match(step, '^r (%S+) (%d+) (%d+)$')
    if not id or sum > limit then return renew_in_line(key, step, value) end
    local _, numbers = find_claim(value, id)
    if not numbers then return '0' end
    local fence, weight, ends, rest = match(value, '^(%d+) (%d+) (%d+)() ', numbers)
    if not fence then damaged() end
    ends = tonumber(ends)
    if ends <= NOW or fence ~= place then return '0' end
    local expires = math.max(ends, NOW + lease)
    if expires == ends and not TOUCH then return 'g' end
    local renewed = format('%s %s %d', fence, weight, expires)
    local lines = string.sub(value, body, numbers - 1) .. renewed .. string.sub(value, rest)
    write(key, shape, last_fence, sum, math.max(last, expires), lines)
    return 'g'
  end

  local function release_waited_for(key, id, value)
    local line = read_line(value)
    for index, entry in ipairs(line.entries) do
      if entry.id == id then
        table.remove(line.entries, index)
        line.sum = line.sum - entry.weight
        break
      end
    end
    line.changed = true
    settle(key, line)
  end

  -- Removes every trace of the claim, holder or waiter.
  local function release(key, step, value)
    local id = string.sub(step, 3)
    local start, numbers = find_claim(value or '', id)
    if not start then return '0' end
    local weight, ends, stop = match(value, '^%d+ (%d+) (%d+) [^\n]*\n()', numbers)
    if not weight then damaged() end
    local shape, limit, fence, sum, last, body = parse_head(value)
    if sum > limit then
      release_waited_for(key, id, value)
    else
      -- Nobody waits, so nobody is admitted by this.
      sum = sum - weight
      local others = string.sub(value, body, start - 1) .. string.sub(value, stop)
      write(key, shape, fence, sum, sum > 0 and last or 0, others)
    end
    return tonumber(ends) > NOW and '1' or '0'
  end

  -- What is shown of a queue to people who look.
  local function view_entries(shape, entries)
    local lines = { shape }
    for i, entry in ipairs(entries) do
      -- The place was taken when its fence was made, give or take a clock that was set back.
      local age = math.max(0, NOW - math.floor(entry.fence / 1000))
      local numbers = format('%s %d %d %d', entry.fence, entry.weight, entry.expires - NOW, age)
      lines[i + 1] = entry.id .. ' ' .. numbers .. ' ' .. entry.who
    end
    return table.concat(lines, '\n')
  end

  -- The line as it is; nothing is changed.
  local function view(_, _, value)
    if not value then return '' end
    local line = read_line(value)
    return view_entries(line.shape, line.entries)
  end

  -- Tells who was admitted before this key became a text.
  local function tell_later(key, messages)
    local _, limit, _, sum = parse_head(redis.call('GET', key))
    tell(messages, sum > limit)
  end

-- @include long-line.lua

  local short = { a = attempt, r = renew, x = release, v = view }
  local long

  -- `start` is the head of the sorted set and the claim that ends first.
  local function take_long(key, step, start)
    long = long or steps_in_long_line()
    local letter = string.sub(step, 1, 1)
    local answer, value, messages = long(key, letter, step, start)
    if answer then return '~' .. answer end
    answer = short[letter](key, step, value)
    if #messages > 0 then tell_later(key, messages) end
    return answer
  end

  local function take_short(key, step, value)
    local answer = short[string.sub(step, 1, 1)](key, step, value)
    return answer or take_long(key, step, redis.call('ZRANGE', key, 0, 1, 'WITHSCORES'))
  end

  -- The step of a client that expects a sorted set.
  local function take_expected(key, step)
    local start = redis.pcall('ZRANGE', key, 0, 1, 'WITHSCORES')
    if start[1] then return take_long(key, step, start) end
    return take_short(key, step, start.err and redis.call('GET', key))
  end

  return take_short, take_long, take_expected
end

-- The claim takes an empty line, or leaves it empty: most steps are one of these two, so they go straight through. What
-- they do is what `attempt` and `release` above would do. nil if it is neither.
local function alone(key, letter, step, value)
  if letter == 'a' then
    local fence = CLOCK
    if value then
      local last = match(value, '^%S+ %d+ (%d+) 0 0\n$')
      if not last then return nil end
      if last + 1 > CLOCK then fence = last + 1 end
    end
    if fence > FENCE_MAX then error({ err = 'HOLDFAST clock: the server time is beyond what a fence can count' }) end
    fence = format('%d', fence)
    local id, shape, weight, ttl, life, tail = match(step, '^a (%S+) (%S+ %d+) (%d+) (%d+) (%d+) %d %d+ (.*)$')
    local numbers = format('%s %s %d', fence, weight, NOW + ttl)
    local line = shape .. ' ' .. numbers .. '\n' .. id .. ' ' .. numbers .. ' ' .. tail .. '\n'
    redis.call('SET', key, line, 'PX', life)
    return 'g ' .. fence .. ' ' .. ttl .. ' 0 ' .. weight
  end
  if letter ~= 'x' or not value then return nil end
  local head, id, ends = match(value, '^(%S+ %d+ %d+) %d+ %d+\n(%S+) %d+ %d+ (%d+) [^\n]*\n$')
  if not id or id ~= string.sub(step, 3) then return nil end
  redis.call('SET', key, head .. ' 0 0\n', 'PX', MEMORY)
  return tonumber(ends) > NOW and '1' or '0'
end

local take_short, take_long, take_expected

local function take(key, step)
  local letter = string.sub(step, 1, 1)
  local value = letter ~= '~' and redis.pcall('GET', key)
  local is_other = value and value.err
  local answer = not is_other and alone(key, letter, step, value)
  if answer then return answer end
  if not take_short then take_short, take_long, take_expected = steps_in_line() end
  if letter == '~' then return take_expected(key, string.sub(step, 2)) end
  -- What is neither a text nor a sorted set is refused by this call.
  if is_other then return take_long(key, step, redis.call('ZRANGE', key, 0, 1, 'WITHSCORES')) end
  return take_short(key, step, value)
end

-- What is wrong with one key must not take the answers of the others away.
if #KEYS == 1 then return take(KEYS[1], ARGV[3]) end
local answers = {}
for i = 1, #KEYS do
  local ok, answer = pcall(take, KEYS[i], ARGV[i + 2])
  if not ok then
    local message = type(answer) == 'table' and answer.err or tostring(answer)
    -- A replica takes no writes at all, and the client should hear that itself: it may have to look for the master.
    if string.find(message, '^%-?READONLY') then return redis.error_reply(message) end
    answer = '! ' .. message
  end
  answers[i] = answer
end
return answers
