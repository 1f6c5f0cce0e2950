package cmd_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// shell is how to start a shell, the commands to set it up, and the keys that insert all offers for a word.
type shell struct {
	argv []string
	told string
	keys string
}

var shellsHere = map[string]shell{
	"bash": {
		argv: []string{"bash", "--norc", "--noprofile", "-i"},
		told: "bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; source <(hipq completion bash)",
		keys: "\x1b*", // insert-completions
	},
	"zsh": {
		argv: []string{"zsh", "-f", "-i"},
		told: "unsetopt zle_bracketed_paste prompt_sp; bindkey -e; autoload -U compinit; compinit -D -u; source <(hipq completion zsh); " +
			"zle -C all complete-word _generic; bindkey '^T' all; zstyle ':completion:all::::' completer _all_matches _complete; " +
			"zstyle ':completion:all:*' insert yes",
		keys: "\x14",
	},
}

// pressTab is the program tab.
func pressTab(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: tab SHELL LINE")
	}
	name, line := args[0], args[1]
	if name == "fish" { // fish lists its offers without a terminal
		c := exec.Command("fish", "--no-config", "-c", "hipq completion fish | source; complete -C $argv[1]", line)
		c.Stderr = os.Stderr
		out, err := c.Output()
		for line := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			fmt.Println(word)
		}
		return err
	}
	words, err := typed(shellsHere[name], line)
	if err != nil {
		return err
	}
	before := len(strings.Fields(line[:strings.LastIndex(line, " ")+1]))
	for _, w := range words[min(before, len(words)):] {
		fmt.Println(w)
	}
	return nil
}

// typed types a line into a shell, and returns its words after completion.
func typed(s shell, line string) (words []string, err error) {
	screen, slave, err := openTerminal(unix.Winsize{})
	if err != nil {
		return nil, err
	}
	defer screen.Close()
	c := exec.Command(s.argv[0], s.argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.Env = append(os.Environ(), "TERM=dumb", "PS1=", "COLUMNS=1000", "HISTFILE=/dev/null")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		return nil, err
	}
	slave.Close()
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	end := time.AfterFunc(30*time.Second, func() { _ = c.Process.Kill() })
	defer end.Stop()
	// The quotes distinguish output from the typed text; ^A goes to the start of the line.
	typing := "PS1=; stty cols 1000; " + s.told + "; printf '%s\\n' 'rea'dy\r"
	if _, err := screen.WriteString(typing); err != nil {
		return nil, err
	}
	shown := bufio.NewScanner(screen)
	var all []string
	for shown.Scan() {
		text := strings.TrimSpace(shown.Text())
		all = append(all, text)
		word, is := strings.CutPrefix(text, "WORD<")
		switch {
		case text == "ready":
			if _, err := screen.WriteString(line + s.keys + "\x01printf 'WORD''<%s>\\n' \x05; printf '%s\\n' 'do'ne\r"); err != nil {
				return nil, err
			}
		case is:
			words = append(words, strings.TrimSuffix(word, ">"))
		case text == "done":
			return words, nil
		}
	}
	return nil, fmt.Errorf("the shell ended, after it had shown\n%s", strings.Join(all, "\n"))
}
