"""Completions of bash, zsh and fish for a program's help. Each is one file that needs nothing else."""


def function_name(program):
    return "_" + program.replace("-", "_")


def flags_of(help_):
    return [flag for option in help_.options() for flag in option.flags]


# --- bash

def bash_values(help_):
    """Lines of a case statement: how the value of each option is completed."""
    actions = {"file": "_scd_paths -f; return", "folder": "_scd_paths -d; return", "other": "return"}
    patterns = {}  # action -> what it is for
    for option in help_.options():
        if option.takes:
            action = actions.get(option.takes) or f"_scd_words '{' '.join(option.choices)}'; return"
            patterns.setdefault(action, []).extend(f"{help_.command}:{flag}" for flag in option.flags)
    return [f"    {'|'.join(flags)}) {action} ;;" for action, flags in patterns.items()]


def bash(help_):
    name = function_name(help_.program)
    helps = [help_] + help_.subcommands
    with_value = sorted({flag for h in helps for option in h.options() if option.takes for flag in option.flags})
    words = [f"    :) _scd_words '{' '.join([h.command for h in help_.subcommands] + flags_of(help_))}' ;;"]
    for h in helps:
        paths = any(option.takes == "file" for option in h.positionals())
        if h.command:
            words.append(f"    {h.command}:) _scd_words '{' '.join(flags_of(h))}'"
                         + ("; _scd_paths -f" if paths else "") + " ;;")
    find = []
    if help_.subcommands:
        find = ["  for ((i = 1; i < COMP_CWORD; i++)); do", '    case "${COMP_WORDS[i]}" in']
        find += [f"    {'|'.join(with_value)}) ((i++)); [ \"${{COMP_WORDS[i]}}\" = = ] && ((i++)) ;;"]
        find += [f"    {'|'.join(h.command for h in help_.subcommands)}) command=${{COMP_WORDS[i]}}; break ;;"]
        find += ["    esac", "  done"]
    lines = [
        f"# bash completion of {help_.program}, made from its --help.",
        "",
        "# Words that begin as the current one does; paths, likewise.",
        '_scd_words() { COMPREPLY+=($(compgen -W "$1" -- "$cur")); }',
        "_scd_paths() {",
        "  local IFS=$'\\n'",
        '  COMPREPLY+=($(compgen "$1" -- "$cur"))',
        "  compopt -o filenames 2> /dev/null",
        "}",
        "",
        f"{name}() {{",
        '  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command="" i',
        "  COMPREPLY=()",
        "  # bash cuts --option=value into three words.",
        '  if [ "$cur" = = ]; then cur=""; elif [ "$prev" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi',
        *find,
        '  case "$command:$prev" in',
        *[line for h in helps for line in bash_values(h)],
        "  esac",
        '  case "$command:" in',
        *words,
        "  esac",
        "}",
        f"complete -F {name} {help_.program}"]
    return "\n".join(lines) + "\n"


# --- zsh

def zsh_quote(text):
    return text.replace("'", "'\\''")


def zsh_text(text):
    """Inside of [...] of an _arguments specification."""
    for char in "\\[]:":
        text = text.replace(char, "\\" + char)
    return zsh_quote(text)


def zsh_action(option):
    return {"choice": f"({' '.join(option.choices)})", "file": "_files", "folder": "_files -/"}.get(option.takes, " ")


def zsh_option(option):
    value = ""
    if option.takes:
        values = 2 if " x 2" in " " + option.note else 1
        value = f":{zsh_text(option.value.lower())}:{zsh_action(option)}" * values
    many = "*" if "repeat" in option.text else ""
    text = f"[{zsh_text(option.text)}]"
    ends = "=" if option.takes else ""
    if many:
        return [f"'{many}{flag}{ends if flag.startswith('--') else ''}{text}{value}'" for flag in option.flags]
    others = " ".join(option.flags)
    return [f"'({others}){flag}{ends if flag.startswith('--') else ''}{text}{value}'" for flag in option.flags]


def zsh_arguments(help_, indent):
    specs = [spec for option in help_.options() for spec in zsh_option(option)]
    specs += [f"'*:{zsh_text((p.value or p.name).lower())}:{zsh_action(p)}'" for p in help_.positionals()]
    return (" \\\n" + indent + "  ").join(["_arguments -S"] + specs)


def zsh(help_):
    name = function_name(help_.program)
    lines = [f"#compdef {help_.program}", f"# zsh completion of {help_.program}, made from its --help.", "",
             f"{name}() {{"]
    if not help_.subcommands:
        lines += ["  " + zsh_arguments(help_, "  ")]
    else:
        commands = " ".join(f"'{h.command}:{zsh_quote(h.summary)}'" for h in help_.subcommands)
        specs = [spec for option in help_.options() for spec in zsh_option(option)]
        lines += ["  local context state state_descr line", "  typeset -A opt_args",
                  f"  local -a commands=({commands})",
                  "  " + " \\\n    ".join(["_arguments -S -C"] + specs + ["'1: :->command'", "'*:: :->arguments'"]),
                  "  case $state in", "    command) _describe 'subcommand' commands ;;", "    arguments)",
                  "      case $words[1] in"]
        for h in help_.subcommands:
            lines += [f"        {h.command})", "          " + zsh_arguments(h, "          "), "          ;;"]
        lines += ["      esac", "      ;;", "  esac"]
    lines += ["}", "", f'{name} "$@"']
    return "\n".join(lines) + "\n"


# --- fish

def fish_quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_option(program, condition, option):
    words = [f"complete -c {program}"]
    if condition:
        words.append(f"-n {fish_quote(condition)}")
    for flag in option.flags:
        words.append(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}")
    if option.takes == "choice":
        words.append(f"-x -a {fish_quote(' '.join(option.choices))}")
    elif option.takes == "file":
        words.append("-r -F")
    elif option.takes == "folder":
        words.append("-x -a '(__fish_complete_directories)'")
    elif option.takes:
        words.append("-x")
    return " ".join(words + [f"-d {fish_quote(option.text)}"])


def fish(help_):
    program = help_.program
    lines = [f"# fish completion of {program}, made from its --help.", f"complete -c {program} -f"]
    top = "__fish_use_subcommand" if help_.subcommands else ""
    lines += [fish_option(program, top, option) for option in help_.options()]
    for h in help_.subcommands:
        lines.append(f"complete -c {program} -n __fish_use_subcommand -a {h.command} -d {fish_quote(h.summary)}")
    for h in help_.subcommands:
        condition = f"__fish_seen_subcommand_from {h.command}"
        lines += [fish_option(program, condition, option) for option in h.options()]
        if any(option.takes == "file" for option in h.positionals()):
            lines.append(f"complete -c {program} -n {fish_quote(condition)} -F")
    return "\n".join(lines) + "\n"
