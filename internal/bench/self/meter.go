package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// meter prints what jobs cost. server is the database's process, or "".
type meter struct {
	out            io.Writer
	prefix, server string
}

// rate prints how many of n jobs f does per second, and their CPU time in this process and the server.
func (m meter) rate(name string, n int, f func() error) error {
	clients, servers, began := ownCPU(), m.serverCPU(), time.Now()
	if err := f(); err != nil {
		return err
	}
	took, client, server := time.Since(began), ownCPU()-clients, m.serverCPU()-servers
	perThousand := func(cpu time.Duration) float64 { return cpu.Seconds() / float64(n) * 1000 }
	if m.server != "" {
		m.line(name, "cpu_server", perThousand(server), "s/1000jobs")
	}
	m.line(name, "rate", float64(n)/took.Seconds(), "jobs/s")
	m.line(name, "cpu_client", perThousand(client), "s/1000jobs")
	return nil
}

func (m meter) line(name, metric string, value float64, unit string) {
	fmt.Fprintf(m.out, "%s.%s\t%s\t%.6g\t%s\n", m.prefix, name, metric, value, unit)
}

// ownCPU includes processes that have ended.
func ownCPU() (sum time.Duration) {
	for _, whose := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(whose, &used); err == nil {
			sum += time.Duration(used.Utime.Nano() + used.Stime.Nano())
		}
	}
	return sum
}

// serverCPU is 0 without /proc.
func (m meter) serverCPU() time.Duration {
	stat, err := os.ReadFile(filepath.Join("/proc", m.server, "stat"))
	if m.server == "" || err != nil {
		return 0
	}
	const utime, stime = 11, 12 // counted from the field after the program's name, which may contain anything
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return 0
	}
	var ticks int64
	for _, f := range fields[utime : stime+1] {
		n, _ := strconv.ParseInt(string(f), 10, 64) // the kernel writes digits
		ticks += n
	}
	const tick = time.Second / 100 // for user space, on every Linux
	return time.Duration(ticks) * tick
}
