package ui

import (
	"context"
	"sync"
	"time"
)

// kept is a value that is read again when it is old.
type kept[T any] struct {
	get func(context.Context) (T, error)
	age time.Duration
	ctx context.Context
	// then, if set, lets pages have the old value if a new one takes long. It is called when they would get the new one.
	then func()

	mu    sync.Mutex
	value T
	err   error
	at    time.Time
	// readAt is when the value was read.
	readAt time.Time
	// reading is closed when a new value is there; nil if none is read. forgotten says that somebody has acted meanwhile, and
	// missed that a page didn't wait.
	reading           chan struct{}
	forgotten, missed bool
}

// keptWait is how long a page waits for a new value if it may have the old one, oldMost how old that may be, and keptMost how
// long reading may take.
const keptWait, oldMost, keptMost = 15 * time.Millisecond, 5 * time.Minute, time.Minute

func (k *kept[T]) now(ctx context.Context) (T, error) {
	value, _, err := k.within(ctx, keptMost, k.get)
	return value, err
}

// within returns a new value, or soon the old one, if one is known that a page may have. If not, most is how long it waits.
func (k *kept[T]) within(ctx context.Context, most time.Duration, get func(context.Context) (T, error)) (value T, known bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.at) < k.age {
		return k.value, true, nil
	}
	if k.then != nil && time.Since(k.readAt) < oldMost {
		most = keptWait
	}
	if k.reading == nil {
		k.reading, k.forgotten, k.missed = make(chan struct{}), false, false
		go k.read(k.reading, get)
	}
	reading := k.reading
	k.mu.Unlock()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-reading:
	case <-late.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	k.mu.Lock()
	if k.reading == reading {
		k.missed = true
		return k.value, time.Since(k.readAt) < oldMost, err
	}
	return k.value, time.Since(k.readAt) < oldMost, k.err
}

func (k *kept[T]) read(reading chan struct{}, get func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(k.ctx, keptMost)
	defer cancel()
	value, err := get(ctx)
	k.mu.Lock()
	if k.err = err; err == nil {
		k.value, k.readAt = value, time.Now()
		if !k.forgotten {
			k.at = time.Now()
		}
	}
	k.reading = nil
	missed := k.missed
	k.mu.Unlock()
	close(reading)
	if missed && err == nil && k.then != nil {
		k.then()
	}
}

func (k *kept[T]) seenAt() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.readAt
}

// forget makes the next page read the value again, because somebody acted.
func (k *kept[T]) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at, k.forgotten = time.Time{}, true
}
