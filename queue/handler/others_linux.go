package handler

import (
	"bytes"
	"os"
	"strconv"
)

// strays finds the processes that have a worker's id in their environment. Neither the worker nor its guard has.
func strays(workerID string) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	mark := []byte("\x00HIPQ_WORKER_ID=" + workerID + "\x00")
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		// of others' processes, and of one that ended just now, there is nothing to read
		env, err := os.ReadFile("/proc/" + name + "/environ")
		if err == nil && (bytes.Contains(env, mark) || bytes.HasPrefix(env, mark[1:])) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// runs says whether a process, which needn't be a child, is there and not a zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" ")) // a name may have anything in it
	return len(after) > 0 && after[0] != 'Z' && after[0] != 'X'
}
