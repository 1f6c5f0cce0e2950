package cmd

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
)

const completionLong = `Prints what teaches a shell to complete hipq's commands, flags, queues, job types, states and ids with the Tab key. Names come
from the config and, if the database answers within a moment, from there; those that a shell would have to quote are left out.

  bash:        hipq completion bash > ~/.local/share/bash-completion/completions/hipq
  or, without the package bash-completion, in ~/.bashrc: source <(hipq completion bash)
  zsh:         hipq completion zsh > "${fpath[1]}/_hipq"
  and in ~/.zshrc: autoload -U compinit; compinit
  fish:        hipq completion fish > ~/.config/fish/completions/hipq.fish
  PowerShell:  hipq completion powershell | Out-String | Invoke-Expression

A shell that is started after that has it. hipq's packages, and make install, bring these files.

Exit codes: 0 done · 64 usage.`

// shells are those for which there is a completion.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print the completion for a shell: bash, zsh, fish or powershell",
		Long:      completionLong,
		Example:   "  source <(hipq completion bash)",
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(shells, args[0]) {
				return noneOf("SHELL", args[0], shells)
			}
			return writeCompletion(cmd.Root(), args[0], cmd.OutOrStdout())
		},
	}
}

// writeCompletion writes what a shell (bash, zsh, fish, powershell) needs to complete the command lines of root.
func writeCompletion(root *cobra.Command, shell string, to io.Writer) error {
	switch shell {
	case "bash":
		if err := root.GenBashCompletionV2(to, true); err != nil {
			return err
		}
		_, err := io.WriteString(to, bashWords)
		return err
	case "zsh":
		return root.GenZshCompletion(to)
	case "fish":
		return root.GenFishCompletion(to, true)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(to)
	}
	return fmt.Errorf("there is no completion for %s", shell)
}

// bashWords stands behind what cobra writes, in place of one of its functions. That needs the package bash-completion for the
// words of the command line, and takes @ for the end of one, as bash does for the sake of host names.
const bashWords = `
# Fills cur, prev, words and cword: the words up to the cursor, ended by blanks alone. bash ends them at COMP_WORDBREAKS too.
__hipq_words()
{
    local line=${COMP_LINE:0:COMP_POINT} i blank part
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        blank=${line%%[![:space:]]*}
        line=${line#"$blank"}
        part=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || part=$line
        line=${line#"$part"}
        if [[ -n $blank || ${#words[@]} -eq 0 ]]; then
            words+=("$part")
        else
            words[${#words[@]} - 1]+=$part
        fi
    done
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword > 0 ? cword - 1 : 0]}
}

__start_hipq()
{
    local cur prev words cword out directive

    COMPREPLY=()
    __hipq_words
    __hipq_get_completion_results
    __hipq_process_completion_results
}
`
