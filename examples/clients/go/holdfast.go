// A client of the Holdfast lock service in one file, with nothing but the standard library of Go.
//
//	client := &Client{URL: "http://127.0.0.1:4600", Token: os.Getenv("HOLDFAST_TOKEN")}
//	hold, err := client.Lock(ctx, "nightly-report", Options{TTL: 30 * time.Second, Note: "report of May"})
//	if err != nil { ... }                        // ErrNotAcquired, a *Problem, or ctx.Err()
//	defer hold.Release()
//	err = work(hold.Context(), hold.Fence)       // its context ends when the lock may be somebody else's
//
// What it guarantees
//   - hold.Context() ends before the service may give the lock to somebody else: the promise is counted on the
//     monotonic clock, from before the request was sent, and less a margin. Lost is final; hold.Lost() tells it
//     from a release.
//   - The lock is renewed after a third of its time, and for as long as the context given to Lock is not done.
//   - A request whose answer got lost is sent again with the same id, so nobody ends up waiting behind himself.
//   - Release gives it back. A process that dies leaves it to run out after TTL.
//
// What it cannot: stop code that does not look at its context. Hand Fence to whatever you write to, and let that
// refuse a lower one than it has seen. The monotonic clock of Go stands still while the machine sleeps.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	longPoll      = 30 * time.Second // One request waits at most this long.
	stay          = 20 * time.Second // The place in line is kept for this long between two of them.
	requestTime   = 10 * time.Second
	shortestPause = 50 * time.Millisecond
)

// ErrNotAcquired says that somebody else held the lock for as long as Options.Wait.
var ErrNotAcquired = errors.New("holdfast: held by somebody else")

// Problem is a refusal of the service.
type Problem struct {
	Status int     `json:"status"`
	Code   string  `json:"code"`
	Detail string  `json:"detail"`
	Place  *answer `json:"place"` // What is kept in line, of a refusal after a wait.
}

func (p *Problem) Error() string { return fmt.Sprintf("holdfast: %s: %s", p.Code, p.Detail) }

// unknown: no answer, or none that says what happened.
type unknown struct {
	why        error
	retryAfter time.Duration
}

func (u *unknown) Error() string { return "holdfast: no answer: " + u.why.Error() }

type Client struct {
	URL   string
	Token string
	// HTTP may be set for certificates of your own. Its Timeout must be 0: requests wait.
	HTTP *http.Client
}

type Options struct {
	TTL time.Duration // Default 30 s.
	// Wait bounds how long to wait for the lock; 0 waits until the context is done, less than 0 tries once.
	Wait time.Duration
	Note string
}

type Hold struct {
	Name  string
	Fence string // A decimal number that grows with every holder; empty where the store mints none.

	client *Client
	ttl    time.Duration
	claim  string
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	mutex sync.Mutex
	sent  time.Time // When the last good request was sent,
	until time.Time // and how long its promise holds.
	lost  bool
}

type answer struct {
	Claim       string  `json:"claim"`
	Fence       *string `json:"fence"`
	LeaseMs     int64   `json:"leaseMs"`     // Of an acquire: counted from when the request came in.
	RemainingMs int64   `json:"remainingMs"` // Of a renewal.
}

// Lock acquires. The context bounds both the wait and the hold.
func (c *Client) Lock(ctx context.Context, name string, options Options) (*Hold, error) {
	ttl := options.TTL
	if ttl <= 0 {
		ttl = 30 * time.Second
	}
	var giveUp time.Time
	if options.Wait != 0 {
		giveUp = time.Now().Add(options.Wait)
	}
	id, pause := newID(), shortestPause
	for {
		poll, isLast := longPoll, false
		if !giveUp.IsZero() {
			if left := time.Until(giveUp); left <= poll {
				poll, isLast = max(left, 0), true
			}
		}
		body := map[string]any{"id": id, "ttlMs": ttl.Milliseconds(), "waitMs": poll.Milliseconds()}
		if poll > 0 {
			// Without it the service would release the claim of whoever hangs up, and the id could not be used again.
			body["stayMs"] = stay.Milliseconds()
		}
		if options.Note != "" {
			body["note"] = options.Note
		}
		sent := time.Now()
		var got answer
		err := c.post(ctx, name, "acquire", body, poll+requestTime, &got)
		var problem *Problem
		var noAnswer *unknown
		switch {
		case err == nil:
			hold := c.keep(ctx, name, got, sent, ttl)
			go hold.keepUp()
			if hold.held() {
				return hold, nil
			}
			// The answer slept somewhere for too long. It is given back, and asked for anew.
			hold.Release()
			id = newID()
		case errors.As(err, &problem) && problem.Status == http.StatusLocked:
			if isLast {
				if problem.Place != nil {
					c.release(name, problem.Place.Claim)
				}
				return nil, ErrNotAcquired
			}
			pause = shortestPause
		case errors.As(err, &noAnswer):
			// It may have been granted. The same id asks for the same place, so asking again is safe.
			pause = min(max(pause*2, noAnswer.retryAfter), 5*time.Second)
			isOver := !giveUp.IsZero() && time.Now().Add(pause).After(giveUp.Add(requestTime))
			if ctx.Err() != nil || isOver || !sleep(ctx, pause) {
				c.undo(name, id, ttl)
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

func (c *Client) keep(ctx context.Context, name string, got answer, sent time.Time, ttl time.Duration) *Hold {
	hold := &Hold{Name: name, client: c, ttl: ttl, claim: got.Claim, done: make(chan struct{})}
	hold.ctx, hold.cancel = context.WithCancel(ctx)
	if got.Fence != nil {
		hold.Fence = *got.Fence
	}
	hold.promised(sent, got.LeaseMs)
	return hold
}

// Context ends when the hold is lost or released, or the context given to Lock is done.
func (h *Hold) Context() context.Context { return h.ctx }

// Lost says whether the hold is over for another reason than Release.
func (h *Hold) Lost() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.lost
}

func (h *Hold) held() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return !h.lost && time.Now().Before(h.until)
}

// promised counts from before the request was sent, less a hundredth for clocks that run at another pace, and less
// some time to stop in.
func (h *Hold) promised(sent time.Time, leaseMs int64) {
	lease := time.Duration(leaseMs) * time.Millisecond
	guard := min(max(50*time.Millisecond, h.ttl/10), h.ttl/4)
	until := sent.Add(lease - lease/100 - 2*time.Millisecond - guard)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if until.After(h.until) {
		h.sent, h.until = sent, until
	}
}

func (h *Hold) times() (sent, until time.Time) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.sent, h.until
}

// renew says whether it was renewed. It marks the hold as lost if it is gone for certain.
func (h *Hold) renew() bool {
	sent := time.Now()
	_, until := h.times()
	limit := min(requestTime, max(200*time.Millisecond, until.Sub(sent)/2))
	var got answer
	err := h.client.post(h.ctx, h.Name, "renew", map[string]any{"claim": h.claim, "ttlMs": h.ttl.Milliseconds()}, limit, &got)
	var problem *Problem
	if err == nil {
		h.promised(sent, got.RemainingMs)
	} else if errors.As(err, &problem) {
		h.lose()
	}
	return err == nil
}

func (h *Hold) lose() {
	h.mutex.Lock()
	h.lost = true
	h.mutex.Unlock()
	h.cancel()
}

func (h *Hold) keepUp() {
	defer close(h.done)
	sent, until := h.times()
	wake := sent.Add(h.ttl / 3)
	for {
		if until.Before(wake) {
			wake = until
		}
		if !sleep(h.ctx, time.Until(wake)) {
			return
		}
		if !time.Now().Before(until) {
			h.lose()
			return
		}
		isRenewed := h.renew()
		sent, until = h.times()
		if isRenewed {
			wake = sent.Add(h.ttl / 3)
		} else {
			wake = time.Now().Add(min(max(h.ttl/20, shortestPause), 2*time.Second))
		}
	}
}

// Release gives the lock back and ends the context of the hold. It may be called again.
func (h *Hold) Release() {
	h.cancel()
	<-h.done
	h.client.release(h.Name, h.claim)
}

func (c *Client) release(name, claim string) {
	for try := 0; try < 3; try++ {
		err := c.post(context.Background(), name, "release", map[string]any{"claim": claim}, requestTime/2, nil)
		var noAnswer *unknown
		if !errors.As(err, &noAnswer) {
			return
		}
		time.Sleep(shortestPause << try)
	}
	// Nobody listens, so it runs out by itself.
}

// undo is for a claim that may have been made without our hearing of it: asked for once more, it can be released.
func (c *Client) undo(name, id string, ttl time.Duration) {
	var got answer
	body := map[string]any{"id": id, "ttlMs": ttl.Milliseconds(), "waitMs": 0, "stayMs": 0}
	if c.post(context.Background(), name, "acquire", body, time.Second, &got) == nil {
		_ = c.post(context.Background(), name, "release", map[string]any{"claim": got.Claim}, time.Second, nil)
	}
}

// post makes one request. The error is a *Problem if the service refused, and *unknown if nobody can tell.
func (c *Client) post(ctx context.Context, name, action string, body any, limit time.Duration, into any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	address := c.URL + "/v1/locks/" + url.PathEscape(name) + "/" + action
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return &unknown{why: err}
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return &unknown{why: err}
	}
	if status := response.StatusCode; status == 408 || status == 429 || status >= 500 {
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return &unknown{why: errors.New(response.Status), retryAfter: time.Duration(seconds) * time.Second}
	}
	if response.StatusCode != http.StatusOK {
		problem := &Problem{Code: "UNKNOWN", Detail: response.Status}
		_ = json.Unmarshal(said, problem)
		problem.Status = response.StatusCode
		return problem
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(said, into); err != nil {
		return &unknown{why: err}
	}
	return nil
}

// newID gives 192 bits that nobody can guess.
func newID() string {
	bits := make([]byte, 24)
	if _, err := rand.Read(bits); err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(bits)
}

func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func min(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

func max(a, b time.Duration) time.Duration {
	if a > b {
		return a
	}
	return b
}

// Holds a lock until its input ends: go run . NAME [WAIT]. It prints "held FENCE", and then "released" or "lost".
func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . NAME [WAIT]")
		os.Exit(64)
	}
	options := Options{Note: "the example in Go"}
	options.TTL, _ = time.ParseDuration(os.Getenv("HOLDFAST_TTL"))
	if len(os.Args) > 2 {
		options.Wait, _ = time.ParseDuration(os.Args[2])
	}
	client := &Client{URL: os.Getenv("HOLDFAST_URL"), Token: os.Getenv("HOLDFAST_TOKEN")}
	if client.URL == "" {
		client.URL = "http://127.0.0.1:4600"
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hold, err := client.Lock(ctx, os.Args[1], options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(75)
	}
	fmt.Println("held", hold.Fence)
	inputEnds := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(inputEnds)
	}()
	select {
	case <-inputEnds:
	case <-hold.Context().Done():
	}
	hold.Release()
	if hold.Lost() {
		fmt.Println("lost")
		os.Exit(79)
	}
	fmt.Println("released")
}
