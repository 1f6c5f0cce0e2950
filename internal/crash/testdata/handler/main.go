// Command handler runs the crash test's jobs. It does what the job's data says for this attempt and notes it in a
// ledger, the test's record apart from the database. Usage: handler LEDGER [decide].
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

type step struct {
	Do    string `json:"do"`
	MS    int    `json:"ms"`
	Print int    `json:"print"`
	Still bool   `json:"still"`
}

// long is longer than a test.
const long = 20 * time.Minute

func main() {
	if os.Args[1] == "sleep" {
		time.Sleep(long)
		return
	}
	var job struct {
		Attempt int `json:"attempt"`
		Data    struct {
			Steps []step `json:"steps"`
		} `json:"job_data"`
	}
	ledger, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_APPEND, 0)
	must(err)
	if len(os.Args) > 2 {
		decide(ledger)
		return
	}
	note(ledger, "start")
	must(json.NewDecoder(os.Stdin).Decode(&job))
	s := job.Data.Steps[min(job.Attempt, len(job.Data.Steps))-1]
	fmt.Print(strings.Repeat("x", s.Print))
	if d := time.Duration(s.MS) * time.Millisecond; s.Still {
		time.Sleep(d)
	} else {
		work(ledger, d)
	}
	switch s.Do {
	case "exit1":
		os.Exit(1)
	case "exit65":
		os.Exit(65)
	case "crash":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "hang":
		// with a child process, which must not outlive the attempt
		self, err := os.Executable()
		must(err)
		must(exec.Command(self, "sleep").Start())
		time.Sleep(long)
	}
	note(ledger, "done")
}

// decide is the retry handler. It retries each error, slowly, so that its worker may be killed meanwhile.
func decide(ledger *os.File) {
	note(ledger, "asked")
	time.Sleep(60 * time.Millisecond)
	fmt.Println(`{"decision":"again","retry_after":"1s"}`)
}

// beat is how often a running handler writes a line, so that the last line of a killed handler shows when it still ran.
const beat = 5 * time.Millisecond

func work(ledger *os.File, d time.Duration) {
	for end := time.Now().Add(d); ; note(ledger, "beat") {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		time.Sleep(min(left, beat))
	}
}

// note adds a line with one write, so that lines of several processes don't mix. A kill may cut the write, so each line
// begins with a newline and ends with a mark.
func note(ledger *os.File, event string) {
	_, err := fmt.Fprintf(ledger, "\n%s %s %s %s %s %d %d .", event, os.Getenv("HIPQ_QUEUE"), os.Getenv("HIPQ_JOB_ID"),
		os.Getenv("HIPQ_ATTEMPT"), os.Getenv("HIPQ_TOKEN"), os.Getpid(), time.Now().UnixNano())
	must(err)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
