"""The verb `engine completion SHELL`: writes what bash, zsh or fish need to complete the words of `engine`.

Pure texts. Each script asks `engine __complete` with the words of the line, so that none of them knows a verb.
"""

from collections.abc import Sequence

from engine.commandline import Given
from engine.errors import Invalid

# bash takes `:` and `=` for the ends of words: the words are read from the line, and what stands in front of bash's own
# word is taken off each candidate.
_BASH = r"""# bash completion for engine; to be sourced, or put into /usr/share/bash-completion/completions/engine
_engine() {
    local line="${COMP_LINE:0:COMP_POINT}" own="${COMP_WORDS[COMP_CWORD]}" last front answer
    local -a words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    last="${words[${#words[@]}-1]}"
    [[ $own == : || $own == = ]] && own=""
    front="${last%"$own"}"
    COMPREPLY=()
    while IFS= read -r answer; do
        case $answer in
        :file) compopt -o filenames; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$own") ;;
        :directory) compopt -o filenames; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$own") ;;
        *)
            answer="${answer%%$'\t'*}"
            [[ $answer == *: ]] && compopt -o nospace
            COMPREPLY+=("${answer#"$front"}")
            ;;
        esac
    done < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F _engine engine
"""
_ZSH = r"""#compdef engine
# zsh completion for engine; to be put into a directory of $fpath as _engine
_engine() {
    local answer name
    local -a found begun
    for answer in "${(@f)$(${words[1]} __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $answer in
        '') ;;
        :file) _files ;;
        :directory) _files -/ ;;
        *)
            name=${answer%%$'\t'*}
            [[ $name == *: ]] && begun+=("${name//:/\\:}") && continue
            found+=("${name//:/\\:}${${(M)answer:#*$'\t'*}:+:${answer#*$'\t'}}")
            ;;
        esac
    done
    (( $#begun )) && _describe engine begun -S ''
    (( $#found )) && _describe engine found
}
if [[ $funcstack[1] == _engine ]]; then _engine "$@"; else compdef _engine engine; fi
"""
_FISH = r"""# fish completion for engine; to be put into ~/.config/fish/completions/engine.fish
function __engine_complete
    set -l words (commandline -opc)
    for answer in ($words[1] __complete -- $words[2..-1] (commandline -ct) 2>/dev/null)
        switch $answer
            case :file
                __fish_complete_path (commandline -ct)
            case :directory
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $answer
        end
    end
end
complete -c engine -f -a '(__engine_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion_verb(api: None, given: Given, others: Sequence[str]) -> int:
    """`engine completion bash|zsh|fish`: print the script. Raises Invalid."""
    (shell,) = others
    if shell not in SCRIPTS:
        raise Invalid(f"there is no completion for {shell}: give one of {', '.join(SCRIPTS)}")
    print(SCRIPTS[shell], end="")
    return 0


FUNCTIONS = {"completion": (completion_verb, ())}
