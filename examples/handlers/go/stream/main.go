// Stream counts the words of texts and writes a report for each, several at once.
// handler: {stream: [./stream-go], processes: 1, in_flight: 4, env: [PAUSE]}
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// job has the needed fields of a job.
type job struct {
	ID      int64
	Token   string
	Attempt int
	Data    json.RawMessage `json:"job_data"`
}

func main() {
	// hipq sends SIGTERM at a job's timeout, and when its worker must end
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var jobs sync.WaitGroup
	lines := json.NewDecoder(os.Stdin)
	for {
		var j job
		if err := lines.Decode(&j); err != nil { // at the end, hipq has no more jobs
			jobs.Wait()
			if errors.Is(err, io.EOF) {
				return
			}
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		jobs.Go(func() { handle(ctx, j) })
	}
}

func handle(ctx context.Context, j job) {
	words, err := count(ctx, j)
	switch {
	case err == nil:
		j.say(map[string]any{"outcome": "finished", "result": map[string]any{"words": words}})
	case errors.Is(err, fs.ErrNotExist): // a retry won't help
		j.say(map[string]any{"outcome": "failed", "error": err.Error()})
	default:
		if ctx.Err() != nil {
			err = errors.New("told to stop")
		}
		fmt.Fprintf(os.Stderr, "job %d: %v\n", j.ID, err) // the log, kept with the attempt
		j.say(map[string]any{"outcome": "retry", "error": err.Error()})
	}
}

// answers keeps lines from mixing.
var answers sync.Mutex

// say prints a line of JSON about the job.
func (j job) say(what map[string]any) {
	what["id"], what["token"] = j.ID, j.Token
	answers.Lock()
	defer answers.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(what)
}

func count(ctx context.Context, j job) (words int, err error) {
	report, part := fmt.Sprintf("report-%d.txt", j.ID), fmt.Sprintf("report-%d.%d.part", j.ID, j.Attempt)
	if j.Attempt > 1 { // an earlier attempt was killed or told to stop, at an unknown point
		left, _ := filepath.Glob(fmt.Sprintf("report-%d.*.part", j.ID))
		for _, name := range left {
			_ = os.Remove(name)
		}
		if done, err := os.ReadFile(report); err == nil { // it had done everything but report it
			_, err = fmt.Sscan(string(done), &words)
			return words, err
		}
	}
	var data struct{ File string }
	_ = json.Unmarshal(j.Data, &data) // other data names no file
	text, err := os.Open(data.File)
	if err != nil {
		return 0, fmt.Errorf("no such text: %w", err)
	}
	defer func() { _ = text.Close() }()
	out, err := os.Create(part)
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = out.Close(), os.Remove(part) }() // unless it has been renamed
	info, err := text.Stat()
	if err != nil {
		return 0, err
	}
	pause, _ := time.ParseDuration(os.Getenv("PAUSE") + "s")
	read, told := int64(0), int64(0)
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words += len(bytes.Fields(lines.Bytes()))
		read += int64(len(lines.Bytes())) + 1
		select {
		case <-time.After(pause): // simulates slow work
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if percent := min(100, read*100/info.Size()); percent > told {
			told = percent
			j.say(map[string]any{"progress": told, "note": fmt.Sprintf("%d words", words)})
		}
	}
	if err = lines.Err(); err == nil {
		_, err = fmt.Fprintf(out, "%d words in %s\n", words, data.File)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return 0, err
	}
	return words, os.Rename(part, report) // atomically
}
