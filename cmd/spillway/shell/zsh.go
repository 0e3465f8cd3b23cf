package shell

import (
	"fmt"
	"strings"
)

const zshLogic = `_spillway() {
  local where="" flag="" plain="" kind="" word="" i count=0 valued="" cur=${words[CURRENT]}
  local -a subs flags
  __spillway_table ""
  for ((i = 2; i < CURRENT; i++)); do
    word=${words[i]}
    if [[ -n $flag ]]; then
      flag=""
    elif [[ -z $plain && $word == "--" ]]; then
      plain=1
    elif [[ -z $plain && $word == -* ]]; then
      [[ " $valued " != *" $word "* ]] || flag=$word
    elif (( ${#subs} )); then
      where="${where:+$where }$word"
      __spillway_table "$where"
    else
      count=$((count + 1))
    fi
  done
  if [[ -z $flag && -z $plain && $cur == --*=* ]]; then
    flag=${cur%%=*}
    compset -P '*='
  fi
  if [[ -n $flag ]]; then
    kind=$(__spillway_value "$where" "$flag")
  elif [[ -z $plain && $cur == -* ]]; then
    _describe -o flag flags
    return
  elif (( ${#subs} )); then
    _describe command subs
    return
  else
    kind=$(__spillway_value "$where" "$((count + 1))")
    [[ -n $kind ]] || kind=$(__spillway_value "$where" many)
  fi
  case $kind in
    file) _files ;;
    dir) _files -/ ;;
    ?*) compadd -- ${=kind} ;;
  esac
}

if [[ ${funcstack[1]} == _spillway ]]; then
  _spillway "$@"
else
  compdef _spillway spillway
fi
`

func zsh(commands []command) string {
	var b strings.Builder
	b.WriteString("#compdef spillway\n# zsh completion for spillway; written by: spillway completion zsh\n")
	b.WriteString("# For this shell: source <(spillway completion zsh)\n")
	b.WriteString("# For all: spillway completion zsh | sudo tee /usr/share/zsh/site-functions/_spillway\n\n")
	b.WriteString("# What may follow a command: other commands, flags, and of those the ones with a value.\n")
	b.WriteString("__spillway_table() {\n  subs=() flags=() valued=\"\"\n  case $1 in\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "    %s)\n      subs=(%s)\n      flags=(%s)\n      valued=%s ;;\n", quote(c.path), described(c.subs), described(c.flags),
			quote(strings.Join(c.valued(), " ")))
	}
	b.WriteString("  esac\n}\n\n")
	writeValues(&b, commands)
	b.WriteString(zshLogic)
	return b.String()
}

// described lists options as _describe wants them: name:help.
func described(options []option) string {
	var words []string
	for _, o := range options {
		for _, name := range o.names() {
			words = append(words, quote(strings.ReplaceAll(name, ":", `\:`)+":"+oneLine(o.help)))
		}
	}
	return strings.Join(words, " ")
}
