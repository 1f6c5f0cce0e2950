package queue

import (
	"database/sql"
	"sync"
	"time"

	"github.com/hipq/hipq/internal/shards"
	"github.com/hipq/hipq/queue/job"
)

// knownFor is how long a Queue goes by what it has read of the registered types: for so long it may not notice that another program
// has changed one.
const knownFor = time.Minute

// knownTypes are the registered types that a Queue remembers, so that who enqueues needn't ask for them each time. It is safe
// for concurrent use.
type knownTypes struct {
	mu    sync.Mutex
	types map[string]job.Type
	// read says when each was, by this process's clock.
	read map[string]time.Time
	// new are those that an application's transaction has registered, which may yet be rolled back.
	new map[string]*sql.Tx
	// parts is how the queue is divided, and partsRead when that was read.
	parts     shards.Division
	partsRead time.Time
	// keep is knownFor.
	keep time.Duration
}

func newKnownTypes() *knownTypes {
	return &knownTypes{types: map[string]job.Type{}, read: map[string]time.Time{}, new: map[string]*sql.Tx{}, keep: knownFor}
}

func (k *knownTypes) get(name string) (job.Type, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.types[name]
	return t, ok && time.Since(k.read[name]) < k.keep
}

// add takes note of types that the database has for good.
func (k *knownTypes) add(types map[string]job.Type) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for name, t := range types {
		k.types[name], k.read[name] = t, now
		delete(k.new, name)
	}
}

// forget has all of them read again.
func (k *knownTypes) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.types)
	k.partsRead = time.Time{}
}

// addRead takes note of a type that an application's transaction has read, unless that has registered it itself.
func (k *knownTypes) addRead(t job.Type, by *sql.Tx) {
	k.mu.Lock()
	own := k.new[t.Name] == by
	k.mu.Unlock()
	if !own {
		k.add(map[string]job.Type{t.Name: t})
	}
}

// division is how the queue is divided, if that is known.
func (k *knownTypes) division() (shards.Division, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.parts, time.Since(k.partsRead) < k.keep
}

// divided takes note of how the queue is divided.
func (k *knownTypes) divided(d shards.Division) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parts, k.partsRead = d, time.Now()
}

// registered takes note of a type that an application's transaction has registered.
func (k *knownTypes) registered(name string, by *sql.Tx) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.new[name] = by
}
