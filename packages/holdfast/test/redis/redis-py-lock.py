"""Locks with the Lock of redis-py, as told by lines of JSON, and answers each with one line."""

import json
import sys

import redis
from redis.exceptions import LockError

client = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
locks = {}


def acquire(name, timeout=None, wait=0):
    """Waits for at most `wait` seconds. Without a timeout, the key never expires."""
    lock = client.lock(name, timeout=timeout, sleep=0.005)
    if not lock.acquire(blocking=wait > 0, blocking_timeout=wait or None):
        return False
    locks[name] = lock
    return True


def release(name):
    try:
        locks.pop(name).release()
    except LockError:
        return "not owned"
    return "released"


def extend(name, seconds):
    try:
        return locks[name].extend(seconds, replace_ttl=True)
    except LockError:
        return "not owned"


def count(name, key, rounds):
    """Adds to a number that only the lock keeps right."""
    for _ in range(rounds):
        with client.lock(name, timeout=30, sleep=0.005):
            client.set(key, int(client.get(key) or 0) + 1)
    return "done"


COMMANDS = {"acquire": acquire, "release": release, "extend": extend, "count": count}

for line in sys.stdin:
    command, *values = json.loads(line)
    print(json.dumps(COMMANDS[command](*values)), flush=True)
