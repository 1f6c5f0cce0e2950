// Command player is the handler of the random operations. It does what a job's data says, as a program for each job, as a stream, or as a retry handler.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// job is what hipq writes. Do has a letter for each attempt, and the last one is for all further attempts; Say has the retry
// handler's letters. The model gives each letter its meaning.
type job struct {
	ID      int64 `json:"id"`
	Attempt int   `json:"attempt"`
	Data    struct {
		N   int    `json:"n"`
		Do  string `json:"do"`
		Say string `json:"say"`
	} `json:"job_data"`
}

func letter(of string, attempt int) byte {
	if of == "" {
		return 'd'
	}
	return of[min(attempt, len(of))-1]
}

// reply is the reply of a letter, or empty.
func reply(do byte) map[string]any {
	switch do {
	case 'd':
		return map[string]any{"outcome": "finished"}
	case 'D':
		return map[string]any{"outcome": "finished", "result": map[string]any{"pages": 3}}
	case 'r':
		return map[string]any{"outcome": "retry", "error": "busy"}
	case '0':
		return map[string]any{"outcome": "retry", "error": "busy", "retry_after": "0s"}
	case 'l':
		return map[string]any{"outcome": "retry", "error": "later", "retry_after": "3d"}
	case 'f':
		return map[string]any{"outcome": "failed", "error": "no such customer"}
	case 's':
		return map[string]any{"outcome": "sent"}
	case 'p':
		return map[string]any{"outcome": "release", "retry_after": "3d"}
	case 'P':
		return map[string]any{"outcome": "release", "retry_after": "0s", "count": true}
	}
	return nil
}

func main() {
	switch os.Args[1] {
	case "stream":
		stream()
	case "decide":
		decide()
	default:
		one()
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
}

func stream() {
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		var j job
		fail(json.Unmarshal(in.Bytes(), &j))
		r := reply(letter(j.Data.Do, j.Attempt))
		if r == nil {
			r = map[string]any{"outcome": "nonsense"}
		}
		r["id"] = j.ID
		fail(out.Encode(r))
	}
}

func one() {
	var j job
	fail(json.NewDecoder(os.Stdin).Decode(&j))
	switch do := letter(j.Data.Do, j.Attempt); do {
	case 'x':
		fmt.Println("exit")
		os.Exit(1)
	case 'q':
		os.Exit(65)
	case 'k':
		fail(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	case 't':
		signal.Ignore(syscall.SIGINT)
		time.Sleep(time.Minute)
	default:
		if r := reply(do); r != nil {
			fail(json.NewEncoder(os.Stdout).Encode(r))
		} else {
			fmt.Println(`{"outcome":"nonsense"}`)
		}
	}
}

func decide() {
	var j job
	fail(json.NewDecoder(os.Stdin).Decode(&j))
	again := map[string]any{"decision": "again"}
	switch letter(j.Data.Say, j.Attempt) {
	case 'z':
		again["decision"] = "final"
	case '0':
		again["retry_after"] = "0s"
	case 'l':
		again["retry_after"] = "3d"
	case 'O':
		again["retry_after"], again["priority"] = "3d", 7
		again["job_data"] = map[string]any{"n": j.Data.N, "do": "d", "changed": true}
	case 'x':
		os.Exit(1)
	case 'b':
		again["decision"] = "perhaps"
	}
	fail(json.NewEncoder(os.Stdout).Encode(again))
}
