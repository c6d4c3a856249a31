"""A client of the Holdfast lock service in one file, with nothing but the standard library of Python 3.8 or newer.

    client = Client("http://127.0.0.1:4600", token=os.environ.get("HOLDFAST_TOKEN"))
    with client.lock("nightly-report", ttl=30, wait=60, note="report of May") as lock:
        for page in pages:
            lock.check()                       # raises LockLost as soon as the lock may be somebody else's
            store(page, fence=lock.fence)      # let the store refuse a lower fence than it has seen

What it guarantees
  * `lock.held` is true only while the service has promised the lock. The promise is counted on a clock that cannot be
    set, from before the request was sent, and less a margin; a lost answer or a slow network only makes it shorter.
  * A thread renews the lock after a third of its time. If it is lost (broken by an operator, or not renewed in time)
    `lock.lost` is set before the service may give it to somebody else. Lost is final.
  * A request whose answer got lost is sent again with the same id, so nobody ends up waiting behind himself.
  * On the way out the lock is released. A process that dies leaves it to run out after `ttl` seconds.
What it cannot: stop your code. Look at `lost`, `held` or `check()`, or hand `fence` to whatever you write to.
"""

import json
import secrets
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

LONG_POLL_S = 30.0  # One request waits at most this long; the place in line is kept between two of them.
STAY_S = 20.0
REQUEST_S = 10.0
SHORTEST_PAUSE_S = 0.05

# It goes on while the machine sleeps, where there is such a clock: the service does not sleep along.
if hasattr(time, "CLOCK_BOOTTIME"):
    def now():
        return time.clock_gettime(time.CLOCK_BOOTTIME)
else:
    now = time.monotonic


class HoldfastError(Exception):
    """The service refused. `code` says why: FORBIDDEN, INVALID_INPUT, SHAPE_CONFLICT, ..."""

    def __init__(self, code, detail, status=None, body=None):
        super().__init__("%s: %s" % (code, detail))
        self.code, self.status, self.body = code, status, body or {}


class NotAcquired(HoldfastError):
    """Somebody else held it for as long as we waited. `body["holders"]` says who."""


class LockLost(HoldfastError):
    """It was held, and must be taken for somebody else's now."""


class Unknown(Exception):
    """No answer, or none that says what happened."""

    def __init__(self, why, retry_after=None):
        super().__init__(why)
        self.retry_after = retry_after


class Client:
    def __init__(self, url="http://127.0.0.1:4600", token=None, context=None):
        """`context`: an `ssl.SSLContext`, where the certificate is not one of a public authority."""
        self._url, self._token, self._context = url.rstrip("/"), token, context

    def lock(self, name, ttl=30.0, wait=None, note=None):
        """A lock for a `with` statement. `wait`: seconds; 0 tries once; None waits for as long as it takes."""
        return Lock(self, name, ttl, wait, note)

    def post(self, name, action, body, timeout):
        """One request. Returns (status, answer); raises Unknown when nobody can tell what became of it."""
        path = "/v1/locks/%s/%s" % (urllib.parse.quote(name, safe=""), action)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        request = urllib.request.Request(self._url + path, json.dumps(body).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=max(timeout, 0.1), context=self._context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                status, problem, headers = error.code, self._read(error), error.headers
            if status in (408, 429) or status >= 500:
                raise Unknown("status %d" % status, _seconds(headers.get("Retry-After"))) from None
            return status, problem
        except (OSError, ValueError) as error:  # No connection, no answer in time, or no JSON.
            raise Unknown(type(error).__name__) from None

    @staticmethod
    def _read(answer):
        try:
            return json.load(answer)
        except (OSError, ValueError):
            return {}


class Lock:
    """One acquisition. Use it in one `with` statement only; make another one to lock again."""

    def __init__(self, client, name, ttl, wait, note):
        if ttl <= 0:
            raise ValueError("ttl must be positive")
        self.name, self.fence, self.lost = name, None, threading.Event()
        self._client, self._ttl, self._wait, self._note = client, ttl, wait, note
        self._id = secrets.token_urlsafe(24)  # 192 bits: nobody can guess it, and it is ours alone.
        self._claim = None
        self._sent = self._until = 0.0  # When the last good request was sent, and how long its promise holds.
        self._done = threading.Event()
        self._thread = None

    def __enter__(self):
        try:
            self._acquire()
        except HoldfastError:
            raise
        except BaseException:  # Interrupted: whatever was granted meanwhile is of no use to anybody.
            self._undo()
            raise
        self._thread = threading.Thread(target=self._keep, name="holdfast " + self.name, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()
        self._release()
        return False

    @property
    def held(self):
        """Judged by the clock each time, so it is right even if no thread got to run."""
        return self._claim is not None and not self._done.is_set() and not self.lost.is_set() and now() < self._until

    def check(self):
        if not self.held:
            raise LockLost("LOCK_LOST", "the lock %r is not held any more" % self.name)

    def _acquire(self):
        give_up = None if self._wait is None else now() + self._wait
        pause = SHORTEST_PAUSE_S
        while True:
            left = LONG_POLL_S if give_up is None else max(0.0, give_up - now())
            is_last = give_up is not None and left <= LONG_POLL_S
            poll = min(left, LONG_POLL_S)
            # Without `stayMs` the service would release the claim of whoever hangs up, and the id could not be used again.
            body = {"id": self._id, "ttlMs": _ms(self._ttl), "waitMs": _ms(poll), "stayMs": _ms(STAY_S) if poll > 0 else 0}
            if self._note is not None:
                body["note"] = self._note
            sent = now()
            try:
                status, answer = self._client.post(self.name, "acquire", body, poll + REQUEST_S)
            except Unknown as error:
                # It may have been granted. The same id asks for the same place, so asking again is safe.
                pause = min(max(pause * 2, error.retry_after or 0), 5.0)
                if give_up is not None and now() + pause > give_up + REQUEST_S:
                    self._undo()
                    raise HoldfastError("UNAVAILABLE", "the service did not answer: %s" % error) from None
                time.sleep(pause)
                continue
            if status == 200:
                self._claim, self.fence = answer["claim"], int(answer["fence"]) if answer["fence"] else None
                self._promised(sent, answer["leaseMs"])
                if self.held:
                    return
                # The answer slept somewhere for too long. It is given back, and asked for anew.
                self._release()
                self._claim, self._until, self._id = None, 0.0, secrets.token_urlsafe(24)
                continue
            if status != 423:
                raise HoldfastError(answer.get("code", "UNKNOWN"), answer.get("detail", ""), status, answer)
            if is_last:
                if answer.get("place"):
                    self._claim = answer["place"]["claim"]
                    self._release()
                raise NotAcquired("LOCKED", "the lock %r is held by somebody else" % self.name, status, answer)
            pause = SHORTEST_PAUSE_S

    def _promised(self, sent, lease_ms):
        """Counted from before the request was sent, less a hundredth for clocks that run at another pace, and less some
        time to stop in."""
        lease = lease_ms / 1000.0
        until = sent + lease - lease * 0.01 - 0.002 - min(max(0.05, self._ttl / 10), self._ttl / 4)
        if until > self._until:
            self._sent, self._until = sent, until

    def _renew(self):
        """True: renewed. False: nobody knows. Sets `lost` if it is gone for certain."""
        sent = now()
        try:
            body = {"claim": self._claim, "ttlMs": _ms(self._ttl)}
            status, answer = self._client.post(self.name, "renew", body, min(REQUEST_S, max(0.2, (self._until - sent) / 2)))
        except Unknown:
            return False
        if status == 200:
            self._promised(sent, answer["remainingMs"])
            return True
        self.lost.set()
        return False

    def _keep(self):
        pause = max(SHORTEST_PAUSE_S, min(self._ttl / 20, 2.0))
        wake = self._sent + self._ttl / 3
        while not self._done.wait(max(0.0, min(wake, self._until) - now())):
            if now() >= self._until:
                self.lost.set()
            if self.lost.is_set():
                return
            wake = self._sent + self._ttl / 3 if self._renew() else now() + pause

    def _release(self):
        for attempt in range(3):
            try:
                self._client.post(self.name, "release", {"claim": self._claim}, REQUEST_S / 2)
                return
            except Unknown:
                time.sleep(SHORTEST_PAUSE_S * 2**attempt)
        # Nobody listens, so it runs out by itself.

    def _undo(self):
        """For a claim that may have been made without our hearing of it: asked for once more, it can be released."""
        try:
            body = {"id": self._id, "ttlMs": _ms(self._ttl), "waitMs": 0, "stayMs": 0}
            status, answer = self._client.post(self.name, "acquire", body, 1.0)
            if status == 200:
                self._client.post(self.name, "release", {"claim": answer["claim"]}, 1.0)
        except Unknown:
            pass


def _ms(seconds):
    return max(0, int(seconds * 1000))


def _seconds(text):
    return float(text) if text and text.isdigit() else None
