package shell

import (
	"fmt"
	"strings"
)

// bashLogic walks the words before the cursor: which command, how many
// arguments, and whether a flag waits for its value. Bash splits --flag=value
// into three words.
const bashLogic = `_spillway() {
  local cur=${COMP_WORDS[COMP_CWORD]} where="" flag="" plain="" kind="" word i count=0 subs flags valued
  COMPREPLY=()
  __spillway_table ""
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == "=" && -z $plain ]]; then
      [[ -n $flag ]] || flag="="
    elif [[ -n $flag ]]; then
      flag=""
    elif [[ -z $plain && $word == "--" ]]; then
      plain=1
    elif [[ -z $plain && $word == -* ]]; then
      [[ " $valued " != *" $word "* ]] || flag=$word
    elif [[ -n $subs ]]; then
      where="${where:+$where }$word"
      __spillway_table "$where"
    else
      count=$((count + 1))
    fi
  done
  if [[ $cur == "=" && -n $flag ]]; then
    cur=""
  fi
  if [[ -n $flag ]]; then
    kind=$(__spillway_value "$where" "$flag")
  elif [[ -z $plain && $cur == -* ]]; then
    kind=$flags
  elif [[ -n $subs ]]; then
    kind=$subs
  else
    kind=$(__spillway_value "$where" "$((count + 1))")
    [[ -n $kind ]] || kind=$(__spillway_value "$where" many)
  fi
  case $kind in
    file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    dir) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    ?*) mapfile -t COMPREPLY < <(compgen -W "$kind" -- "$cur") ;;
  esac
}
complete -F _spillway spillway
`

func bash(commands []command) string {
	var b strings.Builder
	b.WriteString("# bash completion for spillway; written by: spillway completion bash\n")
	b.WriteString("# For this shell: source <(spillway completion bash)\n")
	b.WriteString("# For all: spillway completion bash | sudo tee /usr/share/bash-completion/completions/spillway\n\n")
	b.WriteString("# What may follow a command: other commands, flags, and of those the ones with a value.\n")
	b.WriteString("__spillway_table() {\n  subs=\"\" flags=\"\" valued=\"\"\n  case $1 in\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "    %s)\n      subs=%s\n      flags=%s\n      valued=%s ;;\n", quote(c.path), quote(strings.Join(namesOf(c.subs), " ")),
			quote(strings.Join(namesOf(c.flags), " ")), quote(strings.Join(c.valued(), " ")))
	}
	b.WriteString("  esac\n}\n\n")
	writeValues(&b, commands)
	b.WriteString(bashLogic)
	return b.String()
}

// writeValues writes the function that bash and zsh share.
func writeValues(b *strings.Builder, commands []command) {
	b.WriteString("# What may stand at a flag or at an argument's number: file, dir, or words.\n")
	b.WriteString("__spillway_value() {\n  case $1:$2 in\n")
	for _, c := range commands {
		for _, p := range c.places() {
			fmt.Fprintf(b, "    %s) echo %s ;;\n", quote(c.path+":"+p[0]), quote(p[1]))
		}
	}
	b.WriteString("  esac\n}\n\n")
}
