// Command handler runs the proof's jobs. It does what the job's data says for this attempt, and keeps a ledger: the proof's
// record apart from the database. Usage: handler LEDGER [stream|decide].
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type job struct {
	Queue   string `json:"queue"`
	ID      int64  `json:"id"`
	Attempt int    `json:"attempt"`
	Token   string `json:"token"`
	Data    struct {
		Steps []struct {
			Do   string `json:"do"`
			MS   int    `json:"ms"`
			Deaf bool   `json:"deaf"`
		} `json:"steps"`
	} `json:"job_data"`
}

func main() {
	ledger, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_APPEND, 0)
	must(err)
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	switch mode := append(os.Args, "exec")[2]; mode {
	case "sleep":
		time.Sleep(time.Hour)
	case "decide":
		var asked struct {
			Job job `json:"job"`
		}
		_ = in.Decode(&asked) // only the ledger's line matters, and the environment has what it needs
		note(ledger, "asked", asked.Job)
		time.Sleep(20 * time.Millisecond)
		fmt.Println(`{"decision":"again","retry_after":"0s"}`)
	case "stream":
		for {
			var j job
			if in.Decode(&j) != nil {
				return
			}
			// One at a time would make the jobs of a stream wait for each other.
			go func() {
				answer := map[string]any{"id": j.ID, "token": j.Token, "queue": j.Queue, "outcome": "finished"}
				switch work(ledger, j) {
				case "fail":
					answer["outcome"], answer["error"] = "retry", "failed on purpose"
				case "fatal":
					answer["outcome"], answer["error"] = "failed", "failed for good on purpose"
				}
				line, err := json.Marshal(answer)
				must(err)
				_, _ = os.Stdout.Write(append(line, '\n')) // a lost worker reads no more
			}()
		}
	default:
		var j job
		must(in.Decode(&j))
		switch work(ledger, j) {
		case "fail":
			os.Exit(1)
		case "fatal":
			os.Exit(65)
		}
	}
}

// beat is how often a running handler writes a line, unless it takes long, so that the last line of a killed handler shows when it still ran.
const beat = 10 * time.Millisecond

func work(ledger *os.File, j job) string {
	note(ledger, "start", j)
	step := j.Data.Steps[min(j.Attempt, len(j.Data.Steps))-1]
	if step.Deaf {
		signal.Ignore(syscall.SIGTERM)
	}
	last := time.Duration(step.MS) * time.Millisecond
	for end := time.Now().Add(last); time.Until(end) > 0; note(ledger, "beat", j) {
		time.Sleep(min(time.Until(end), max(beat, last/1000)))
	}
	switch step.Do {
	case "crash":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "hang":
		// with a child process, which must not outlive the attempt
		self, err := os.Executable()
		must(err)
		must(exec.Command(self, os.Args[1], "sleep").Start())
		for range time.Tick(beat) {
			note(ledger, "beat", j)
		}
	}
	note(ledger, step.Do, j)
	if worker := os.Getppid(); step.Do == "stop" && isHipq(worker) {
		must(syscall.Kill(worker, syscall.SIGSTOP)) // before it hears of the end; the round lets it go on
	}
	return step.Do
}

func isHipq(pid int) bool {
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return filepath.Base(exe) == "hipq"
}

// note adds a line with one write, so that lines of several processes don't mix. A kill may cut the write, so each line
// begins with a newline and ends with a mark. The time is the machine's since its start, which no fault of a clock changes.
func note(ledger *os.File, event string, j job) {
	queue, id, attempt, token := j.Queue, fmt.Sprint(j.ID), fmt.Sprint(j.Attempt), j.Token
	if queue == "" {
		queue, id, attempt, token = os.Getenv("HIPQ_QUEUE"), os.Getenv("HIPQ_JOB_ID"), os.Getenv("HIPQ_ATTEMPT"), os.Getenv("HIPQ_TOKEN")
	}
	var now unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_BOOTTIME, &now))
	_, err := fmt.Fprintf(ledger, "\n%s %s %s %s %s %d %d %d .", event, queue, id, attempt, token, os.Getpid(), os.Getppid(), now.Nano())
	must(err)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
