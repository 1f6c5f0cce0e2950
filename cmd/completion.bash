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
