// Exec counts the words of a text and writes a report. handler: {exec: [./exec-go], env: [PAUSE]}
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// job has the needed fields of a job.
type job struct {
	ID      int64
	Attempt int
	Data    json.RawMessage `json:"job_data"`
}

func main() {
	// hipq sends SIGTERM at the timeout, and when its worker must end
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var j job
	err := json.NewDecoder(os.Stdin).Decode(&j)
	if err == nil {
		var words int
		if words, err = count(ctx, j); err == nil {
			say(map[string]any{"outcome": "finished", "result": map[string]any{"words": words}})
			return
		}
	}
	if ctx.Err() != nil {
		say(map[string]any{"outcome": "retry", "error": "told to stop"})
		os.Exit(75)
	}
	fmt.Println(err)
	if errors.Is(err, fs.ErrNotExist) {
		os.Exit(65) // a retry won't help
	}
	os.Exit(1)
}

// say prints a line of JSON.
func say(what map[string]any) { _ = json.NewEncoder(os.Stdout).Encode(what) }

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
			say(map[string]any{"progress": told, "note": fmt.Sprintf("%d words", words)})
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
