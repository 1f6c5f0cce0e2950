package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processes finds the processes of this program and of its handlers, with their command lines. It needs Linux's /proc;
// elsewhere it finds none.
func (h hipq) processes() map[int]string {
	found := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if exe != h.program && exe != h.handler && !strings.Contains(string(env), "HIPQ_CONFIG="+h.config+"\x00") {
			continue
		}
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			found[pid] = fmt.Sprintf("process %d: %s", pid, strings.ReplaceAll(string(argv), "\x00", " "))
		}
	}
	return found
}
