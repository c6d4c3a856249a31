--[[
  A queue of many claims. It is one sorted set under the key of the resource, and its members are of several sorts, each
  with scores in a range of its own:

      h<kind> <limit> <fence> <admitted> <boundary>    -inf                    the head: rank 0
      e<id>                                            expiry - EXPIRY_SHIFT   rank 1 to n, the first to end first
      d<id> <weight> <channel> <who>                   fence                   rank n + 1 + 2 k for the claim k, from 0
      i<id>                                            fence                   rank n + 2 + 2 k

  Admission depends on the position only, so the head has all there is to know of it: `boundary` is the fence of the last
  claim that was admitted, and `admitted` is the weight of all claims up to there. Claims with a higher fence wait. `fence`
  is the last one that was given out.

  No step reads more of the set than it needs, so it costs O(log n). Claims that have expired are removed at the beginning
  of every step but `v`; each is removed once. Where a text gives the end of the first claim ahead, this gives the end of
  the first claim of the whole queue, which is never later.

  This file is a part of line.lua, which includes it.
]]

-- Gives a function that takes a step: its answer; or nil, the text that the queue has become, and who must be told.
local function steps_in_long_line()
  local call = redis.call
  -- How many members one command is given at the most: Lua puts arguments on a stack of limited size.
  local CHUNK = 1000
  -- The first to wait tells this many holders. It only makes them pass the claim on among themselves for a shorter time.
  local TELL_MAX = 64
  local FIRST_EXPIRY = format('%d', -EXPIRY_SHIFT)

  local function text(number) return format('%d', number) end

  -- The claim with this fence: its member, id, weight, channel and who.
  local function claim_at(key, fence)
    local member = call('ZRANGE', key, fence, fence, 'BYSCORE', 'LIMIT', 0, 1)[1]
    return member, match(member, '^d(%S+) (%d+) (%S+) (.*)$')
  end

  -- The fence and the expiry of a claim; nil if it has no place.
  local function place_of(key, id)
    local scores = call('ZMSCORE', key, 'i' .. id, 'e' .. id)
    if not scores[1] then return nil end
    return tonumber(scores[1]), scores[2] + EXPIRY_SHIFT
  end

  local function count_of(queue)
    queue.count = queue.count or (call('ZCARD', queue.key) - 1) / 3
    return queue.count
  end

  -- Whether there is a claim behind the last one that is admitted.
  local function is_wanted(queue)
    if queue.wanted == nil then
      queue.wanted = tonumber(call('ZRANGE', queue.key, -1, -1, 'WITHSCORES')[2]) > queue.boundary
    end
    return queue.wanted
  end

  -- Admits the claims that fit now. The end of the step publishes their grants, except for the claim that gets this answer.
  local function advance(queue, self)
    while true do
      local after = '(' .. text(queue.boundary)
      local found = call('ZRANGE', queue.key, after, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
      queue.wanted = found[1] ~= nil
      if not found[1] then break end
      local id, weight, channel = match(found[1], '^d(%S+) (%d+) (%S+) ')
      if queue.admitted + weight > queue.limit then break end
      queue.admitted = queue.admitted + weight
      queue.boundary = tonumber(found[2])
      if id ~= self then
        queue.messages[#queue.messages + 1] = { channel, 'g ' .. id .. ' ' .. text(queue.boundary) }
      end
    end
  end

  -- Removes the claims that have expired: those are absent for every decision.
  local function purge(queue, self)
    local key = queue.key
    local now = text(NOW - EXPIRY_SHIFT)
    local over = call('ZRANGE', key, FIRST_EXPIRY, now, 'BYSCORE')
    for from = 1, #over, CHUNK do
      local members = {}
      for i = from, math.min(#over, from + CHUNK - 1) do members[#members + 1] = 'i' .. string.sub(over[i], 2) end
      for _, fence in ipairs(call('ZMSCORE', key, unpack(members))) do
        if tonumber(fence) <= queue.boundary then
          local _, _, weight = claim_at(key, fence)
          queue.admitted = queue.admitted - weight
        end
        call('ZREMRANGEBYSCORE', key, fence, fence)
      end
    end
    call('ZREMRANGEBYSCORE', key, FIRST_EXPIRY, now)
    advance(queue, self)
    queue.first_end = nil
  end

  local function head_of(queue)
    return format('h%s %s %d %d', queue.shape, queue.fence, queue.admitted, queue.boundary)
  end

  -- Writes what a step has changed of the head, and tells who is admitted by it.
  local function settle(queue)
    local head = head_of(queue)
    if head ~= queue.head then
      call('ZREM', queue.key, queue.head)
      call('ZADD', queue.key, '-inf', head)
    end
    if #queue.messages > 0 then tell(queue.messages, is_wanted(queue)) end
  end

  -- Makes the key last as long as a claim that ends then, and its fence.
  local function outlive(queue, expires)
    local life = expires - NOW + MEMORY
    local left = call('PTTL', queue.key)
    if TOUCH or left < life then call('PEXPIRE', queue.key, text(math.max(left, life))) end
  end

  -- All claims in order of arrival, also those that have expired.
  local function entries_of(queue)
    local members = call('ZRANGE', queue.key, 0, -1, 'WITHSCORES')
    local ends, entries = {}, {}
    for i = 1, #members, 2 do
      local member, score = members[i], members[i + 1]
      local sort = string.sub(member, 1, 1)
      if sort == 'e' then
        ends[string.sub(member, 2)] = score + EXPIRY_SHIFT
      elseif sort == 'd' then
        local id, weight, channel, who = match(member, '^d(%S+) (%d+) (%S+) (.*)$')
        entries[#entries + 1] = {
          id = id, fence = text(score), weight = tonumber(weight), expires = ends[id], channel = channel, who = who,
        }
      end
    end
    return entries
  end

  local function shorten(queue)
    local entries = entries_of(queue)
    local sum, last = 0, 0
    for _, entry in ipairs(entries) do
      sum = sum + entry.weight
      last = math.max(last, entry.expires)
    end
    return write(queue.key, queue.shape, queue.fence, sum, last, format_entries(entries))
  end

  local function open(key, start)
    local shape, limit, fence, admitted, boundary = match(start[1] or '', '^h(%S+ (%d+)) (%d+) (%d+) (%d+)$')
    if not shape then error({ err = 'WRONGTYPE Holdfast has not written this sorted set' }) end
    return {
      key = key, head = start[1], shape = shape, limit = tonumber(limit), fence = fence, admitted = tonumber(admitted),
      boundary = tonumber(boundary), messages = {}, first_end = start[4] and start[4] + EXPIRY_SHIFT or 0,
    }
  end

  -- How long until the first claim ends, and who is first in the queue.
  local function whom_to_wait_for(queue)
    queue.first_end = queue.first_end or call('ZRANGE', queue.key, 1, 1, 'WITHSCORES')[2] + EXPIRY_SHIFT
    local first = count_of(queue) + 1
    local who = match(call('ZRANGE', queue.key, first, first)[1], '^d%S+ %d+ %S+ (.*)$')
    return text(queue.first_end - NOW) .. ' ' .. who
  end

  -- The claim stands already. It keeps its place; its weight may only shrink; its lease is extended when it runs low.
  local function stand(queue, claim, fence, expires)
    local key = queue.key
    local member, _, before, channel, who = claim_at(key, text(fence))
    local lighter = before - claim.weight
    if lighter > 0 then
      call('ZREM', key, member)
      call('ZADD', key, text(fence), format('d%s %d ', claim.id, claim.weight) .. channel .. ' ' .. who)
      if fence <= queue.boundary then queue.admitted = queue.admitted - lighter end
      advance(queue, claim.id)
    end
    local is_admitted = fence <= queue.boundary
    local left = expires - NOW
    if left < claim.lease / 2 then
      left = math.max(is_admitted and claim.ttl or claim.lease, left)
      call('ZADD', key, text(NOW + left - EXPIRY_SHIFT), 'e' .. claim.id)
      queue.first_end = nil
      outlive(queue, NOW + left)
    elseif TOUCH then
      outlive(queue, expires)
    end
    settle(queue)
    local weight = math.min(before, claim.weight)
    if is_admitted then return format('g %d %d %d %d', fence, left, is_wanted(queue) and 1 or 0, weight) end
    local ahead = (call('ZRANK', key, 'i' .. claim.id) - count_of(queue) - 2) / 2
    return format('w %d %d %d %d ', fence, left, weight, ahead) .. whom_to_wait_for(queue)
  end

  -- The first waiter notifies the holders that a claim waits; later waiters need not repeat it.
  local function announce_wanted(queue, own_channel)
    local first = count_of(queue) + 1
    local members = call('ZRANGE', queue.key, first, first + 2 * TELL_MAX - 1)
    for i = 1, #members, 2 do
      local id, channel = match(members[i], '^d(%S+) %d+ (%S+) ')
      if channel ~= own_channel then publish(channel, 'w ' .. id) end
    end
  end

  local function join(queue, claim)
    local key = queue.key
    local was_wanted = is_wanted(queue)
    local fits = not was_wanted and queue.admitted + claim.weight <= queue.limit
    if not fits and not claim.waits then
      settle(queue)
      return 'n ' .. whom_to_wait_for(queue)
    end
    local ahead = count_of(queue)
    local answer = not fits and whom_to_wait_for(queue)
    if not fits and not was_wanted then announce_wanted(queue, match(claim.tail, '^%S+')) end
    local lease = fits and claim.ttl or claim.lease
    local fence, expires = next_fence(queue.fence), NOW + lease
    queue.fence = fence
    if fits then
      queue.admitted = queue.admitted + claim.weight
      queue.boundary = tonumber(fence)
    end
    queue.wanted = not fits
    call(
      'ZADD', key, text(expires - EXPIRY_SHIFT), 'e' .. claim.id, fence, 'i' .. claim.id,
      fence, format('d%s %d ', claim.id, claim.weight) .. claim.tail
    )
    outlive(queue, expires)
    settle(queue)
    if fits then return format('g %s %d 0 %d', fence, lease, claim.weight) end
    return format('w %s %d %d %d ', fence, lease, claim.weight, ahead) .. answer
  end

  local function attempt(queue, step)
    local id, shape, _, weight, ttl, waits, lease, tail = match(step, ATTEMPT)
    local claim = {
      id = id, weight = tonumber(weight), ttl = tonumber(ttl), waits = waits == '1', lease = tonumber(lease), tail = tail,
    }
    if shape ~= queue.shape then
      settle(queue)
      return 'm ' .. queue.shape
    end
    local fence, expires = place_of(queue.key, id)
    if fence then return stand(queue, claim, fence, expires) end
    return join(queue, claim)
  end

  local function renew(queue, step)
    local key = queue.key
    local places, leases, members, answers, renewed = {}, {}, {}, {}, {}
    for id, place, lease in string.gmatch(string.sub(step, 3), '(%S+) (%d+) (%d+)') do
      places[#places + 1], leases[#leases + 1] = place, NOW + lease
      members[#members + 1] = 'i' .. id
      members[#members + 1] = 'e' .. id
    end
    local scores = call('ZMSCORE', key, unpack(members))
    local last = 0
    for i, place in ipairs(places) do
      local fence = tonumber(scores[2 * i - 1] or nil)
      if fence and text(fence) == place then
        local expires = math.max(scores[2 * i] + EXPIRY_SHIFT, leases[i])
        last = math.max(last, expires)
        renewed[#renewed + 1] = text(expires - EXPIRY_SHIFT)
        renewed[#renewed + 1] = members[2 * i]
        answers[i] = fence <= queue.boundary and 'g' or '1'
      else
        answers[i] = '0'
      end
    end
    if last > 0 then
      call('ZADD', key, 'GT', unpack(renewed))
      outlive(queue, last)
    end
    settle(queue)
    return table.concat(answers)
  end

  -- Removes every trace of the claim, holder or waiter.
  local function release(queue, step)
    local key, id = queue.key, string.sub(step, 3)
    local fence = place_of(key, id)
    if fence then
      local member, _, weight = claim_at(key, text(fence))
      call('ZREM', key, member, 'i' .. id, 'e' .. id)
      if fence <= queue.boundary then queue.admitted = queue.admitted - weight end
      advance(queue)
    end
    settle(queue)
    return fence and '1' or '0'
  end

  local function view(queue)
    local live = {}
    for _, entry in ipairs(entries_of(queue)) do
      if entry.expires > NOW then live[#live + 1] = entry end
    end
    return view_entries(queue.shape, live)
  end

  local steps = { a = attempt, r = renew, x = release }

  return function(key, letter, step, start)
    local queue = open(key, start)
    if letter == 'v' then return view(queue) end
    local expired = queue.first_end <= NOW
    -- An attempt is answered, and who releases does not wait any more, so neither needs a message.
    if expired then purge(queue, letter ~= 'r' and match(step, '^%a (%S+)') or nil) end
    -- A renewal removes no live claim, so the length matters only if expired claims were removed.
    if (expired or letter ~= 'r') and count_of(queue) <= SHORT then return nil, shorten(queue), queue.messages end
    return steps[letter](queue, step)
  end
end
