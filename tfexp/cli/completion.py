"""`tfexp completion bash`: verbs by tfexp, keys, groups and choices by Hydra."""

from tfexp.cli.arguments import Parser
from tfexp.cli.main import VERBS

BASH = """\
_tfexp_complete() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}"
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{verbs}" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
        train|ablate|plan|summary)
            local line="tfexp ${{COMP_LINE#*${{COMP_WORDS[1]}} }}"
            local choices
            choices=$(COMP_LINE="$line" COMP_POINT=${{#line}} tfexp train -sc query=bash 2>/dev/null)
            COMPREPLY=($(compgen -o nospace -o default -W "$choices" -- "$word"))
            ;;
    esac
}}
COMP_WORDBREAKS=${{COMP_WORDBREAKS//=}}
complete -o nospace -o default -F _tfexp_complete tfexp
"""


def run(arguments: list[str]) -> int:
    parser = Parser("completion", 'Print shell code; switch it on with: eval "$(tfexp completion bash)"')
    parser.add_argument("shell", choices=("bash",), nargs="?", default="bash")
    parser.parse_intermixed_args(arguments)
    print(BASH.format(verbs=" ".join(VERBS)), end="")
    return 0
