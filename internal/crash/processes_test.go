package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// left finds the processes of this program and of its handlers. Only Linux shows the environment of processes that way;
// elsewhere it finds none.
func (h hipq) left() (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		ours := exe == h.program || exe == h.handler || strings.Contains(string(env), "HIPQ_CONFIG="+h.config+"\x00")
		if ours {
			found = append(found, fmt.Sprintf("process %s: %s", filepath.Base(dir), strings.ReplaceAll(string(argv), "\x00", " ")))
		}
	}
	return found
}
