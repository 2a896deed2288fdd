"""Completion scripts for bash, zsh and fish, made from the tree of commands: they know what argparse knows.

All three find the command by the words before the cursor, and complete its commands and options, the values of options
with choices, files where a file is meant, and names of topics, groups and transactional ids where one is meant.
"""

from __future__ import annotations

import argparse
import shlex
from typing import Final

from tailrace.cli.command_tree import Node, Option, tree_of

FILES: Final = frozenset({"F", "FILE", "FILE|DIR", "DIR", "FILE|TEXT", "URL|DIR", "PLACE"})
NAMES: Final = {
    "topics": frozenset({"TOPIC", "T", "TOPIC|PATH"}),
    "groups": frozenset({"GROUP"}),
    "ids": frozenset({"ID"}),
}
"""Kinds of names that the cluster is asked for, by the metavariables that stand for one."""


def _listing(command: str, key: str) -> str:
    return f"tailrace {command} --timeout 2 2>/dev/null | sed -n 's/^[a-z]* {key}=\\([^ ]*\\).*/\\1/p'"


LISTINGS: Final = {
    "topics": _listing("topic list", "topic"),
    "groups": _listing("group list", "group"),
    "ids": _listing("txn list", "id"),
}


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    make = {"bash": bash, "zsh": zsh, "fish": fish}[shell]
    return make(tree_of(parser))


# bash

_BASH: Final = """\
# bash completion for tailrace; made by `tailrace completion bash`
_tailrace() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path=tailrace at
    local commands= options= kind=
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        case "$path ${COMP_WORDS[at]}" in
@PATHS@) path="$path ${COMP_WORDS[at]}" ;;
        esac
    done
    case "$path" in
@COMMANDS@    esac
    case "$path $before" in
@VALUES@        *)
            if [[ $word == -* ]]; then kind=words; commands=$options
            elif [[ -n $commands ]]; then kind=words
            fi ;;
    esac
    case "$kind" in
        words) mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word") ;;
@NAMES@        files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}
complete -F _tailrace tailrace
"""


def bash(tree: Node) -> str:
    nodes = tree.walk()
    paths = "|".join(f'"{" ".join(node.path)}"' for node in nodes[1:])
    commands, values = "", ""
    for node in nodes:
        path = " ".join(node.path)
        words = [command.path[-1] for command in node.commands] + [
            choice for argument in node.arguments for choice in argument.choices
        ]
        kind = _kind_of_arguments(node)
        setting = f" kind={kind};" if kind else ""
        options = " ".join(flag for option in node.options for flag in option.flags)
        commands += f"        {shlex.quote(path)}) commands={shlex.quote(' '.join(words))};{setting}"
        commands += f" options={shlex.quote(options)} ;;\n"
        for option in node.options:
            if option.metavar:
                patterns = "|".join(f'"{path} {flag}"' for flag in option.flags)
                values += f"        {patterns}) {_bash_value(option)} ;;\n"
    filled = _BASH.replace("@PATHS@", f"            {paths}").replace("@COMMANDS@", commands)
    names = "".join(
        f'        {kind}) mapfile -t COMPREPLY < <(compgen -W "$({listing})" -- "$word") ;;\n'
        for kind, listing in LISTINGS.items()
    )
    return filled.replace("@VALUES@", values).replace("@NAMES@", names)


def _bash_value(option: Option) -> str:
    if option.choices:
        return f"kind=words; commands={shlex.quote(' '.join(option.choices))}"
    return f"kind={_kind(option.metavar) or 'none'}"


def _kind_of_arguments(node: Node) -> str:
    return next((kind for argument in node.arguments if (kind := _kind(argument.metavar))), "")


def _kind(metavar: str) -> str:
    if metavar in FILES:
        return "files"
    return next((kind for kind, metavars in NAMES.items() if metavar in metavars), "")


# zsh

# `path`, `commands` and `options` are zsh's own: not to be taken for names here.
_ZSH: Final = """\
#compdef tailrace
# zsh completion for tailrace; made by `tailrace completion zsh`
@NAMES@_tailrace() {
    local place=tailrace at
    for ((at = 2; at < CURRENT; at++)); do
        case "$place $words[at]" in
@PATHS@) place="$place $words[at]" ;;
        esac
    done
    case "$place $words[CURRENT-1]" in
@VALUES@    esac
    local -a names flags
    local kind=
    case "$place" in
@COMMANDS@    esac
    if [[ $words[CURRENT] == -* ]]; then
        _describe -o option flags
    elif (( $#names )); then
        _describe command names
    elif [[ $kind == files ]]; then
        _files
    elif [[ -n $kind ]]; then
        _tailrace_$kind
    fi
}
if [[ $funcstack[1] == _tailrace ]]; then _tailrace "$@"; else compdef _tailrace tailrace; fi
"""


def zsh(tree: Node) -> str:
    nodes = tree.walk()
    paths = "|".join(f'"{" ".join(node.path)}"' for node in nodes[1:])
    commands, values = "", ""
    for node in nodes:
        path = " ".join(node.path)
        named = [(command.path[-1], command.help) for command in node.commands]
        named += [(choice, "") for argument in node.arguments for choice in argument.choices]
        flags = [(flag, option.help) for option in node.options for flag in option.flags]
        kind = _kind_of_arguments(node)
        commands += f'        "{path}")\n            names=({_zsh_words(named)})\n'
        commands += f"            flags=({_zsh_words(flags)})\n            kind={kind} ;;\n"
        for option in node.options:
            if option.metavar:
                patterns = "|".join(f'"{path} {flag}"' for flag in option.flags)
                values += f"        {patterns}) {_zsh_value(option)}; return ;;\n"
    filled = _ZSH.replace("@PATHS@", f"            {paths}").replace("@COMMANDS@", commands)
    names = "".join(
        f'_tailrace_{kind}() {{\n    local -a found\n    found=(${{(f)"$({listing})"}})\n    compadd -a found\n}}\n'
        for kind, listing in LISTINGS.items()
    )
    return filled.replace("@VALUES@", values).replace("@NAMES@", names)


def _zsh_words(words: list[tuple[str, str]]) -> str:
    return " ".join(shlex.quote(f"{word.replace(':', chr(92) + ':')}:{_brief(text)}") for word, text in words)


def _zsh_value(option: Option) -> str:
    if option.choices:
        return f"compadd {' '.join(map(shlex.quote, option.choices))}"
    kind = _kind(option.metavar)
    return "_files" if kind == "files" else f"_tailrace_{kind}" if kind else "_message value"


# fish

_FISH: Final = """\
# fish completion for tailrace; made by `tailrace completion fish`
function __tailrace_at
    set -l path tailrace
    for word in (commandline -opc)[2..-1]
        switch "$path $word"
            case @PATHS@
                set path "$path $word"
        end
    end
    test "$path" = "$argv"
end
@NAMES@complete -c tailrace -f
"""


def fish(tree: Node) -> str:
    nodes = tree.walk()
    paths = " ".join(f"'{' '.join(node.path)}'" for node in nodes[1:])
    names = "".join(f"function __tailrace_{kind}\n    {listing}\nend\n" for kind, listing in LISTINGS.items())
    lines = _FISH.replace("@PATHS@", paths).replace("@NAMES@", names)
    for node in nodes:
        at = f"complete -c tailrace -n '__tailrace_at {' '.join(node.path)}'"
        for command in node.commands:
            lines += f"{at} -a {shlex.quote(command.path[-1])} -d {shlex.quote(_brief(command.help))}\n"
        for argument in node.arguments:
            if argument.choices:
                lines += f"{at} -a {shlex.quote(' '.join(argument.choices))}\n"
        kind = _kind_of_arguments(node)
        if kind:
            lines += f"{at} -F\n" if kind == "files" else f"{at} -a '(__tailrace_{kind})'\n"
        for option in node.options:
            lines += f"{at}{_fish_flags(option)}{_fish_value(option)} -d {shlex.quote(_brief(option.help))}\n"
    return lines


def _fish_flags(option: Option) -> str:
    return "".join(f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}" for flag in option.flags)


def _fish_value(option: Option) -> str:
    if not option.metavar:
        return ""
    if option.choices:
        return f" -x -a {shlex.quote(' '.join(option.choices))}"
    kind = _kind(option.metavar)
    return " -r -F" if kind == "files" else f" -x -a '(__tailrace_{kind})'" if kind else " -x"


def _brief(text: str) -> str:
    """What fits behind a word: up to the first pause."""
    return text.split(";")[0].split(" (default")[0].replace("\n", " ")
