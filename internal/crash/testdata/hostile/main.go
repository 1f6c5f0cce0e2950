// Command hostile behaves badly for TestBounded as the job's data says, and then answers if it still can. Usage: hostile
// exec|stream. hostile stay is its daemon.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// long is longer than a test.
const long = 20 * time.Minute

type job struct {
	ID   int64 `json:"id"`
	Data struct {
		Do    string `json:"do"`
		Bytes int64  `json:"bytes"`
	} `json:"job_data"`
}

func main() {
	if os.Args[1] == "stay" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		time.Sleep(long)
		return
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		must(err)
		var j job
		must(json.Unmarshal(line, &j))
		j.do()
		fmt.Printf(`{"id":%d,"outcome":"finished"}`+"\n", j.ID)
	}
}

func (j job) do() {
	switch j.Data.Do {
	case "flood":
		flood(os.Stderr, "x", j.Data.Bytes/2)
		flood(os.Stdout, "x", j.Data.Bytes/2)
	case "flood like a reply":
		flood(os.Stdout, "{", j.Data.Bytes)
	case "close":
		must(errors.Join(os.Stdout.Close(), os.Stderr.Close()))
		time.Sleep(long)
	case "daemon":
		self, err := os.Executable()
		must(err)
		stay := exec.Command(self, "stay")
		stay.Stdout, stay.Stderr = os.Stdout, os.Stderr
		stay.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		must(stay.Start())
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("deaf")
		time.Sleep(long)
	}
}

// flood prints one line of n bytes as fast as possible.
func flood(to *os.File, begin string, n int64) {
	block := bytes.Repeat([]byte("x"), 1<<20)
	_, err := to.WriteString(begin)
	for ; n > 0 && err == nil; n -= int64(len(block)) {
		_, err = to.Write(block[:min(n, int64(len(block)))])
	}
	must(err)
	_, err = to.WriteString("\n")
	must(err)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
