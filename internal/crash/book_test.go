package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// step is the handler's action in one attempt. The last step repeats for all further attempts.
type step struct {
	Do    string `json:"do"`
	MS    int    `json:"ms,omitempty"`
	Print int    `json:"print,omitempty"`
	// Still makes the handler note only its start and its end.
	Still bool `json:"still,omitempty"`
}

// Actions of a handler.
const (
	doDone   = "done"
	doExit1  = "exit1"
	doExit65 = "exit65"
	doCrash  = "crash" // kills itself
	doHang   = "hang"  // until the timeout
	doLate   = "late"  // SQL workers settle when another runs the job; for all others it is done
)

// slow is the minimum in ms of a step that a test can catch while it runs.
const slow = 300

// name identifies a job before it has an id.
type name struct{ queue, jobType, key string }

// spec is a job as it was enqueued.
type spec struct {
	name
	steps []step
	// weight is its throttle factor.
	weight int
}

// usual is the default weight.
const usual = 1

func (s spec) step(attempt int) step { return s.steps[min(attempt, len(s.steps))-1] }

// book records what was enqueued.
type book struct {
	rng  *rand.Rand
	make func(*book) spec
	// invented counts the jobs that were made up, files the NDJSON files.
	invented, files int

	mu    sync.Mutex
	specs map[name]spec
	order []spec
	// rows counts the jobs that hipq reported as added, and those that the test inserted.
	rows int
	// asked counts how often each job was enqueued. ids has the ids that hipq printed.
	asked map[name]int
	ids   map[name]int64
}

func newBook(rng *rand.Rand, invent func(*book) spec) *book {
	return &book{rng: rng, make: invent, specs: map[name]spec{}, asked: map[name]int{}, ids: map[name]int64{}}
}

// spec returns the spec of a job.
func (b *book) spec(n name) spec {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.specs[n]
}

// named makes up a job without steps.
func (b *book) named() spec {
	b.invented++
	return spec{name: name{queue: queues[b.rng.IntN(len(queues))], jobType: "steady", key: fmt.Sprintf("job-%06d", b.invented)}, weight: usual}
}

// invent makes up a job. Most are short, so that much happens. The others last long enough to lose their worker, or
// fail.
func (b *book) invent() spec {
	s := b.named()
	done, again := step{Do: doDone}, 1+b.rng.IntN(2)
	if b.rng.IntN(5) == 0 {
		done.Print = b.rng.IntN(20_000)
	}
	fails := func(do string) {
		for range again {
			s.steps = append(s.steps, step{Do: do, MS: b.rng.IntN(50)})
		}
	}
	switch p := b.rng.IntN(1000); {
	case p < 250:
		done.MS = 5 + b.rng.IntN(196)
	case p < 300:
		done.MS = slow + b.rng.IntN(600)
	case p < 325:
		fails(doExit1)
	case p < 340:
		fails(doCrash)
	case p < 350:
		s.steps = append(s.steps, step{Do: doExit65})
		return s
	case p < 360:
		s.jobType = "brief"
		s.steps = append(s.steps, step{Do: doHang})
	case p < 370:
		s.jobType = "fragile"
		again = fragileAttempts
		fails(doExit1)
	case p < 390:
		s.jobType = "fragile"
		done.MS = b.rng.IntN(200)
	case p < 420:
		s.jobType = "brief"
	case p < 450:
		s.jobType = "asked"
		fails([]string{doExit1, doExit65, doCrash}[b.rng.IntN(3)])
	case p < 480:
		s.jobType = "sent"
	}
	s.steps = append(s.steps, done)
	return s
}

// enqueue adds n jobs and some duplicates: most as NDJSON, a few one by one, a few with plain SQL. Sometimes two
// processes enqueue the same file at once.
func (b *book) enqueue(ctx context.Context, h hipq, db *database, n int) error {
	const single, plain = 2, 5
	var alone, bulk []spec
	for i := range n {
		if i < single+plain {
			alone = append(alone, b.make(b))
		} else {
			bulk = append(bulk, b.make(b))
		}
	}
	b.order = append(b.order, bulk...)
	for range 1 + len(bulk)/20 {
		bulk = append(bulk, b.order[b.rng.IntN(len(b.order))])
	}
	b.order = append(b.order, alone...) // later calls may duplicate them too
	b.rng.Shuffle(len(bulk), func(i, j int) { bulk[i], bulk[j] = bulk[j], bulk[i] })
	file, err := b.write(h, bulk)
	if err != nil {
		return err
	}
	times := 1
	if b.rng.IntN(4) == 0 {
		times = 2
	}
	b.expect(times, bulk)
	b.expect(1, alone)
	errs := make(chan error, times)
	for range times {
		go func() { errs <- b.enqueueFile(ctx, h, file, len(bulk)) }()
	}
	for range times {
		if e := <-errs; e != nil {
			err = e
		}
	}
	for i, s := range alone {
		if err != nil {
			return err
		}
		if i < single {
			err = b.enqueueOne(ctx, h, s)
		} else if err = db.insert(s); err == nil {
			b.count(1)
		}
	}
	return err
}

func (b *book) expect(times int, specs []spec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range specs {
		b.specs[s.name] = s
		b.asked[s.name] += times
	}
}

func (b *book) count(rows int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows += rows
}

func (s spec) data() string {
	data, err := json.Marshal(map[string][]step{"steps": s.steps})
	if err != nil {
		panic(err) // steps always encode
	}
	return string(data)
}

func (b *book) write(h hipq, specs []spec) (string, error) {
	var text strings.Builder
	for _, s := range specs {
		line := map[string]any{"queue": s.queue, "job_type": s.jobType, "job_key": s.key, "job_data": json.RawMessage(s.data())}
		if s.weight != usual {
			line["throttle_factor"] = s.weight
		}
		if b.rng.IntN(10) == 0 {
			line["priority"] = b.rng.IntN(200)
		}
		if b.rng.IntN(20) == 0 {
			line["scheduled_run_time"] = time.Now().Add(time.Duration(b.rng.IntN(4)) * time.Second).Format(time.RFC3339)
		}
		encoded, err := json.Marshal(line)
		if err != nil {
			return "", err
		}
		text.Write(append(encoded, '\n'))
	}
	b.files++
	file := filepath.Join(filepath.Dir(h.ledger), fmt.Sprintf("jobs-%d.ndjson", b.files))
	return file, os.WriteFile(file, []byte(text.String()), 0o600)
}

func (b *book) enqueueFile(ctx context.Context, h hipq, file string, lines int) error {
	out, err := h.run(ctx, "enqueue", "--json", "--ndjson", file)
	if err != nil {
		return err
	}
	var counts struct{ Added, Duplicates int }
	if err := json.Unmarshal([]byte(out), &counts); err != nil {
		return fmt.Errorf("enqueue printed %q: %w", out, err)
	}
	b.count(counts.Added)
	if counts.Added+counts.Duplicates != lines {
		return fmt.Errorf("enqueue printed %q for %d lines", out, lines)
	}
	return nil
}

func (b *book) enqueueOne(ctx context.Context, h hipq, s spec) error {
	out, err := h.run(ctx, "enqueue", s.queue, s.jobType, "--key", s.key, "--data", s.data(), "--throttle-factor", fmt.Sprint(s.weight), "--json")
	if err != nil {
		return err
	}
	var added struct {
		ID        int64
		Duplicate bool
	}
	if err := json.Unmarshal([]byte(out), &added); err != nil || added.Duplicate {
		return fmt.Errorf("enqueue printed %q for a new key (%w)", out, err)
	}
	b.count(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ids[s.name] = added.ID
	return nil
}
