#!/bin/sh
# Runs a command while holding a lock of the Holdfast service. Needs curl, and nothing else but a POSIX shell.
#
#   with-lock.sh [-t TTL] [-w WAIT] [-n NOTE] NAME COMMAND [ARGUMENT...]
#
#   -t  seconds until the lock frees itself if this script dies; at least 10, default 30
#   -w  seconds to wait for the lock; 0 tries once, default: as long as it takes
#   -n  text for people who look at who holds what
#   HOLDFAST_URL (default http://127.0.0.1:4600) and HOLDFAST_TOKEN say where and as whom.
#
# What it guarantees
#   * The command runs only while the lock is held: it is renewed after a third of its time, and when it is lost
#     (broken by an operator, or not renewed in time) the command and all it has started get SIGTERM, and SIGKILL before
#     the service may give the lock to somebody else. Time is counted from before a request was sent, in whole seconds
#     and always to the worse side, by a clock that cannot be set where there is one (/proc/uptime), else by `date`.
#   * A request whose answer got lost is sent again with the same id, so nobody ends up waiting behind himself.
#   * The lock is released when the command ends, and when this script is interrupted or killed, which also ends the
#     command. When the machine dies the lock runs out after TTL.
#   * HOLDFAST_FENCE is a number that grows with every holder: give it to whatever the command writes to, and let that
#     refuse a lower one than it has seen. A process that stands still does not hear signals either.
#   * Token and claim are secrets: they are in no command line, so `ps` does not show them.
#
# Exits with what the command exits with; 64 wrong usage, 69 the service refused or did not answer, 75 the lock was not
# acquired in time, 79 the lock was lost.

set -u

say() { printf 'with-lock: %s\n' "$*" >&2; }
usage() {
  say 'usage: with-lock.sh [-t TTL] [-w WAIT] [-n NOTE] NAME COMMAND [ARGUMENT...]'
  exit 64
}

ttl=30 wait_for='' note=''
while getopts t:w:n: option; do
  case $option in
    t) ttl=$OPTARG ;;
    w) wait_for=$OPTARG ;;
    n) note=$OPTARG ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
case "$ttl$wait_for" in *[!0-9]*) usage ;; esac
[ "${ttl:-0}" -ge 10 ] || usage
name=$1
shift

url=${HOLDFAST_URL:-http://127.0.0.1:4600}
# Every byte as %XX is one segment of a path, whatever is in the name.
path=$(printf %s "$name" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g')
folder=$(mktemp -d) || exit 70
me=main claim='' command_pid='' renewer='' curl_pid=''

new_id() { id=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n'); } # 192 bits that nobody can guess.
now() { if [ -r /proc/uptime ]; then sed 's/\..*//' /proc/uptime; else date +%s; fi; }
quoted() { printf %s "$1" | tr -d '\000-\037\177' | sed 's/[\\"]/\\&/g'; }

# post ACTION BODY SECONDS sets `status` (000: no answer) and `answer`. Secrets reach curl by its standard input. It runs in
# the background because a shell that waits for it hears signals at once.
post() {
  {
    printf 'header = "Content-Type: application/json"\n'
    [ -z "${HOLDFAST_TOKEN:-}" ] || printf 'header = "Authorization: Bearer %s"\n' "$(quoted "$HOLDFAST_TOKEN")"
    printf 'data-raw = "%s"\n' "$(quoted "$2")"
  } | curl -q --silent --max-time "$3" --write-out '\n%{http_code}' --config - "$url/v1/locks/$path/$1" >"$folder/$me" &
  curl_pid=$!
  wait "$curl_pid"
  curl_pid=''
  answer=$(cat "$folder/$me")
  status=$(printf %s "$answer" | sed -n '$p')
  [ -n "$status" ] || status=000
}

# Members of an answer that are texts without quotes, or numbers.
text_of() { printf %s "$answer" | sed -n 's/.*"'"$1"'":"\([^"\\]*\)".*/\1/p'; }
number_of() { printf %s "$answer" | sed -n 's/.*"'"$1"'":\([0-9]*\).*/\1/p'; }

# promised MEMBER: counted from before the request was sent, less a hundredth for clocks that run at another pace, and less
# two seconds for the grain of ours. `guard` is the time to end the command in.
guard=$((ttl / 10 + 1))
promised() { until=$((sent + $(number_of "$1") * 99 / 100000 - 2)) wake=$((sent + ttl / 3)); }

acquire() { # acquire WAIT STAY
  times="\"ttlMs\":$((ttl * 1000)),\"waitMs\":$(($1 * 1000)),\"stayMs\":$(($2 * 1000))"
  post acquire "{\"id\":\"$id\",$times,\"note\":\"$(quoted "$note")\"}" $(($1 + 10))
}

release() {
  for pause in 0 1 2; do
    sleep $pause
    post release "{\"claim\":\"$claim\"}" 5
    case $status in 000 | 408 | 429 | 5??) ;; *) break ;; esac
  done
}

signal_command() { kill -s "$1" -- "-$command_pid" 2>/dev/null; }

finish() {
  code=$?
  trap - EXIT
  trap '' HUP INT TERM
  [ -z "$curl_pid" ] || kill "$curl_pid" 2>/dev/null
  [ -z "$renewer" ] || kill "$renewer" 2>/dev/null
  if [ "$claim" = unknown ]; then # It may have been granted. Asked for once more, it can be released.
    acquire 0 0
    claim=''
    [ "$status" != 200 ] || claim=$(text_of claim)
  fi
  [ -z "$claim" ] || release
  rm -rf "$folder"
  exit $code
}
interrupted() { # The lock is renewed until the command has ended.
  trap '' HUP INT TERM
  if [ -n "$command_pid" ] && signal_command TERM; then
    (sleep 10 && signal_command KILL) >/dev/null 2>&1 &
    killer=$!
    wait "$command_pid"
    kill $killer 2>/dev/null
    signal_command KILL
  fi
  exit $((128 + $1))
}
trap finish EXIT
trap 'interrupted 1' HUP
trap 'interrupted 2' INT
trap 'interrupted 15' TERM

# --- Acquire. One request waits for up to 20 seconds, and the place in line is kept between two of them.

started=$(now)
pause=1
new_id
while :; do
  # Without a stay the service would release the claim of whoever hangs up, and the id could not be used again.
  poll=20 stay=20 last=no
  if [ -n "$wait_for" ]; then
    left=$((started + wait_for - $(now)))
    [ "$left" -gt 0 ] || left=0
    if [ "$left" -le 20 ]; then poll=$left last=yes; fi
    [ "$poll" -gt 0 ] || stay=0
  fi
  sent=$(now)
  claim=unknown
  acquire $poll $stay
  case $status in
    200)
      claim=$(text_of claim)
      fence=$(text_of fence)
      promised leaseMs
      [ "$(now)" -ge $((until - guard)) ] || break
      # The answer slept somewhere for too long. It is given back, and asked for anew.
      release
      new_id
      ;;
    423)
      if [ $last = yes ]; then
        claim=$(text_of claim) # Of the place in line, where one was kept.
        say 'somebody else holds the lock'
        exit 75
      fi
      ;;
    000 | 408 | 429 | 5??) # The same id asks for the same place, so asking again is safe.
      if [ $last = yes ] && [ "$(now)" -gt $((started + wait_for + 10)) ]; then
        say "the service does not answer (status $status)"
        exit 69
      fi
      sleep $pause
      [ $pause -ge 5 ] || pause=$((pause + 1))
      ;;
    *)
      claim=''
      say "the service refused: $(text_of code)"
      exit 69
      ;;
  esac
done

# --- Run it in a group of its own, so that all of it can be ended.

export HOLDFAST_NAME="$name" HOLDFAST_FENCE="$fence"
exec 3<&0
if command -v setsid >/dev/null 2>&1; then
  setsid "$@" <&3 3<&- &
else
  set -m
  "$@" <&3 3<&- &
  set +m
fi
command_pid=$!

# --- Renew it until the command has ended.

end_command() {
  signal_command TERM
  while [ "$(now)" -lt $until ] && signal_command 0; do sleep 1; done
  signal_command KILL
}
(
  trap - EXIT HUP INT TERM
  me=renewer
  while :; do
    while [ "$(now)" -lt $wake ] && kill -s 0 $$ 2>/dev/null; do sleep 1; done
    if ! kill -s 0 $$ 2>/dev/null; then # This script was killed, and only this part of it is left.
      end_command
      release
      rm -rf "$folder"
      exit
    fi
    left=$((until - guard - $(now)))
    if [ $left -gt 0 ]; then
      sent=$(now)
      post renew "{\"claim\":\"$claim\",\"ttlMs\":$((ttl * 1000))}" $left
      case $status in
        200) promised remainingMs && continue ;;
        000 | 408 | 429 | 5??) wake=$(($(now) + 1)) && continue ;;
      esac
    fi
    : >"$folder/lost"
    end_command
    exit
  done
) >/dev/null 2>&1 &
renewer=$!

wait "$command_pid"
code=$?
if [ -e "$folder/lost" ]; then
  wait "$renewer"
  say 'the lock was lost'
  exit 79
fi
exit $code
