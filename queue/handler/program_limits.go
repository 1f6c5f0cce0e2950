package handler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/texts"
)

// Limits are what a program may use, and each of the processes that it starts for itself. 0 is no limit but what the worker has.
// Memory is rounded up to whole KiB, CPU to whole seconds, and FileSize to a multiple of 512 bytes.
type Limits struct {
	// Memory is the address space, in bytes, of which programs often have far more than they use.
	Memory int64
	// OpenFiles is how many files are open at once.
	OpenFiles int
	// CPU is the time of processors. A process gets a signal then, XCPU, and is killed 5 s of that time later.
	CPU time.Duration
	// FileSize is how long a file may become, in bytes.
	FileSize int64
}

// lastCPU is what a process has, of a processor's time, to end in when it has used up its own.
const lastCPU = 5 * time.Second

type limit struct {
	key    string
	shown  string // its value
	letter byte
	n      int64 // in ulimit's unit, 0 is none
	unit   int64 // how many of the system's that is
}

// all are those that can be set, that of memory last: from then on, the shell that sets them may have too little.
func (l Limits) all() []limit {
	whole := func(n, unit int64) int64 {
		return n/unit + min(n%unit, 1) // rounded up, for 0 would be none
	}
	return []limit{
		{"open_files", fmt.Sprint(l.OpenFiles), 'n', int64(l.OpenFiles), 1},
		{"file_size", texts.Bytes(l.FileSize), 'f', whole(l.FileSize, 512), 512},
		{"cpu", l.CPU.String(), 't', whole(int64(l.CPU), int64(time.Second)), 1},
		{"memory", texts.Bytes(l.Memory), 'v', whole(l.Memory, 1<<10), 1 << 10},
	}
}

// script is what a shell does before it becomes the program, for which Go has no way between fork and exec: the lines are hipq's
// own, with numbers in them, and the program comes as the shell's arguments. Empty is nothing.
func (p *Program) script() string {
	var s strings.Builder
	if p.Umask != nil {
		fmt.Fprintf(&s, "umask %04o\n", *p.Umask)
	}
	for _, l := range p.Limits.all() {
		if l.n == 0 {
			continue
		}
		options := fmt.Sprintf("-%c", l.letter)
		if l.letter == 't' {
			options = "-S -t" // the hard one is for who doesn't heed XCPU
		}
		fmt.Fprintf(&s, "ulimit %s %d || { echo 'hipq could not set limits.%s to %s: this host allows less' >&2; exit 78; }\n",
			options, l.n, l.key, l.shown)
		if l.letter == 't' {
			fmt.Fprintf(&s, "ulimit -H -t %d 2>/dev/null || :\n", l.n+int64(lastCPU/time.Second)) // unless it is lower
		}
	}
	if s.Len() == 0 && p.Nice == 0 {
		return ""
	}
	own := slices.DeleteFunc([]string{"PWD", "OLDPWD", "SHLVL"}, func(name string) bool { // the shell's, unless the config gives them
		return slices.ContainsFunc(p.Env, func(entry string) bool { return entry == name || strings.HasPrefix(entry, name+"=") })
	})
	return "unset " + strings.Join(append(own, "_"), " ") + "\n" + s.String() + `exec "$@"`
}
