package table

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
)

// Completion prints a script that completes commands, flags and values in a shell.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish"`
}

// Run prints the script.
func (c *Completion) Run(a *term.App, kctx *kong.Context) error {
	script := map[string]func([]node) []byte{"bash": bash, "zsh": zsh, "fish": fish}[c.Shell]
	_, err := a.Stdout.Write(script(nodes(kctx.Model.Node)))
	return err
}

// node is a command of the table, as the scripts need it.
type node struct {
	path     string // "explain url"; "" for the program
	children []*kong.Node
	flags    []flag
	argument complete // what to complete in place of an argument
}

// flag is a flag, its value and a short help.
type flag struct {
	name, help string
	short      rune // 0: none
	value      complete
	repeated   bool
}

// complete is what a value may be: one of words, a file, a directory, or anything.
type complete struct {
	words    []string
	parts    bool // the value is a list of words, with commas between
	takes    bool // false for a flag that is on or off
	file     bool
	dir      bool
	whatever string // name of the value
}

// nodes returns all commands that are not hidden, the program itself first.
func nodes(app *kong.Node) (list []node) {
	var walk func(n *kong.Node, path string, inherited []*kong.Flag)
	walk = func(n *kong.Node, path string, inherited []*kong.Flag) {
		all := slices.Concat(inherited, n.Flags)
		here := node{path: path, flags: []flag{
			{name: "help", help: "Show the usage and the most used flags"},
			{name: "help-all", help: "Print all flags with their full text"}}}
		for _, f := range all {
			if !f.Hidden && f.Name != "help" && f.Name != "help-all" {
				here.flags = append(here.flags, flag{f.Name, flags.FirstSentence(f.Help), f.Short,
					completeValue(f.Value, f.PlaceHolder), f.IsSlice()})
			}
			if f.Tag.Negatable != "" {
				here.flags = append(here.flags, flag{name: "no-" + f.Name, help: "The opposite of --" + f.Name})
			}
		}
		for _, arg := range n.Positional {
			if here.argument.words == nil { // of several arguments, one with a fixed choice, else the last
				here.argument = completeValue(arg, strings.ToUpper(arg.Name))
			}
		}
		for _, child := range n.Children {
			if !child.Hidden {
				here.children = append(here.children, child)
			}
		}
		list = append(list, here)
		for _, child := range here.children {
			walk(child, strings.TrimSpace(path+" "+child.Name), all)
		}
	}
	walk(app, "", nil)
	return list
}

// completeValue tells by enumeration and placeholder what a value may be.
func completeValue(v *kong.Value, placeholder string) complete {
	c := complete{takes: !v.IsBool(), file: placeholder == "FILE", dir: placeholder == "DIR",
		whatever: strings.ToLower(placeholder)}
	if v.Enum != "" {
		c.words = v.EnumSlice()
	} else if c.words = flags.PartWords(v); c.words != nil {
		c.parts = true
	}
	return c
}

// pattern returns a case pattern of bash for a flag of a command.
func pattern(path string, f *flag) string {
	p := `"` + path + " --" + f.name + `"`
	if f.short != 0 {
		p += `|"` + path + " -" + string(f.short) + `"`
	}
	return p
}

// bashCases are the parts of the script for bash that name commands and flags.
type bashCases struct{ paths, words, dirs, files, others, commands []string }

func (c *bashCases) add(n node) {
	var names []string
	for _, f := range n.flags {
		names = append(names, "--"+f.name)
		switch {
		case f.value.words != nil:
			c.words = append(c.words, fmt.Sprintf("\t%s) %s=%q ;;\n", pattern(n.path, &f), bashList(f.value),
				strings.Join(f.value.words, " ")))
		case f.value.dir:
			c.dirs = append(c.dirs, pattern(n.path, &f))
		case f.value.file:
			c.files = append(c.files, pattern(n.path, &f))
		case f.value.takes:
			c.others = append(c.others, pattern(n.path, &f))
		}
	}
	arguments := strings.Join(n.argument.words, " ")
	for _, child := range n.children {
		arguments += " " + child.Name
		c.paths = append(c.paths, `"`+n.path+" "+child.Name+`"`)
	}
	if n.path == "" {
		arguments += " help"
	}
	kind := ""
	if n.argument.dir {
		kind = " kind=-d"
	} else if n.argument.file {
		kind = " kind=-f"
	}
	c.commands = append(c.commands, fmt.Sprintf("\t%q) flags=%q words=%q%s ;;\n", n.path, strings.Join(names, " "),
		strings.TrimSpace(arguments), kind))
}

// bashList names the script's variable for the words of a value.
func bashList(c complete) string {
	if c.parts {
		return "parts"
	}
	return "words"
}

// bash returns a script for bash 4 or later.
func bash(list []node) []byte {
	var c bashCases
	for _, n := range list {
		c.add(n)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Completion of drumbeat for bash 4 or later: source <(drumbeat completion bash)
_drumbeat() {
	local cur=${COMP_WORDS[COMP_CWORD]} path= flag= flags= words= parts= kind= value i
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$path ${COMP_WORDS[i]}" in
		%s) path="${path:+$path }${COMP_WORDS[i]}" ;;
		esac
	done
	if [[ $cur != -* ]]; then # bash splits words at =
		for ((i = COMP_CWORD - 1; i > 0; i--)); do # back to the flag, over the parts of its value
			[[ ${COMP_WORDS[i]} != --* && (${COMP_WORDS[i]} == = || ${COMP_WORDS[i+1]} == =) ]] || break
		done
		flag=${COMP_WORDS[i]} cur=${cur#=}
	fi
	case "$path $flag" in
%s	%s) kind=-d ;;
	%s) kind=-f ;;
	%s) return ;;
	*) flag= ;;
	esac
	if [[ -z $flag ]]; then
		case "$path" in
%s		esac
	fi
	if [[ -z $flag && $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
	elif [[ -n $parts ]]; then
		compopt -o nospace 2>/dev/null
		printf -v value %%s "${COMP_WORDS[@]:i+1:COMP_CWORD-i}"
		value=${value#=} value=${value##*,}
		for i in $parts; do
			[[ $i != "$value"* ]] || COMPREPLY+=("$cur${i:${#value}}")
		done
	elif [[ -n $kind ]]; then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen "$kind" -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	fi
}
complete -F _drumbeat drumbeat
`, strings.Join(c.paths, "|"), strings.Join(c.words, ""), strings.Join(c.dirs, "|"), strings.Join(c.files, "|"),
		strings.Join(c.others, "|"), strings.Join(c.commands, ""))
	return b.Bytes()
}

// quoted returns text in single quotes for zsh and bash.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// zsh returns a script for the completion system of zsh.
func zsh(list []node) []byte {
	escape := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)
	action := func(c complete) string {
		switch {
		case c.parts:
			return zshParts(c.words)
		case c.words != nil:
			return "(" + strings.Join(c.words, " ") + ")"
		case c.dir:
			return "_files -/"
		case c.file:
			return "_files"
		}
		return " "
	}
	var b bytes.Buffer
	b.WriteString("#compdef drumbeat\n# Completion of drumbeat for zsh: put it into a directory of " +
		"$fpath, as _drumbeat.\n\n_drumbeat() {\n\tlocal -a commands\n\tlocal path=\n" +
		"\tif (( CURRENT > 2 )) && [[ $words[2] == help ]]; then\n\t\tshift words\n\t\t(( CURRENT-- ))\n\tfi\n")
	for _, n := range list {
		depth := len(strings.Fields(n.path))
		test := fmt.Sprintf("(( CURRENT > %d ))", depth+1)
		for i, word := range strings.Fields(n.path) {
			test += fmt.Sprintf(" && [[ $words[%d] == %s ]]", i+2, word)
		}
		if len(n.children) > 0 {
			fmt.Fprintf(&b, "\tif (( CURRENT == %d )) && %s; then\n", depth+2, test)
			zshCommands(&b, &n)
			b.WriteString("\t\treturn\n\tfi\n")
			continue
		}
		fmt.Fprintf(&b, "\tif %s; then\n\t\tshift %d words\n\t\t(( CURRENT -= %d ))\n\t\t_arguments",
			test, depth, depth)
		for _, f := range n.flags {
			spec := "[" + escape.Replace(f.help) + "]"
			long := "--" + f.name
			if f.value.takes {
				long += "="
				spec += ":" + escape.Replace(f.value.whatever) + ":" + action(f.value)
			}
			star := ""
			if f.repeated {
				star = "*"
			}
			b.WriteString(" \\\n\t\t\t" + quoted(star+long+spec))
			if f.short != 0 {
				b.WriteString(" \\\n\t\t\t" + quoted(star+"-"+string(f.short)+spec))
			}
		}
		fmt.Fprintf(&b, " \\\n\t\t\t%s\n\t\treturn\n\tfi\n",
			quoted("*:"+escape.Replace(n.argument.whatever)+":"+action(n.argument)))
	}
	b.WriteString("}\n\nif [[ $funcstack[1] == _drumbeat ]]; then\n\t_drumbeat \"$@\"\nelse\n\tcompdef " +
		"_drumbeat drumbeat\nfi\n")
	return b.Bytes()
}

// zshCommands writes the commands below a node, by group.
func zshCommands(b *bytes.Buffer, n *node) {
	for _, group := range flags.CommandGroups {
		head := "\t\tcommands=(\n"
		for _, child := range n.children {
			if child.Tag.Get("of") != group.Key {
				continue
			}
			fmt.Fprintf(b, "%s\t\t\t%s\n", head,
				quoted(child.Name+":"+strings.ReplaceAll(flags.FirstSentence(child.Help), ":", `\:`)))
			head = ""
		}
		if head == "" {
			fmt.Fprintf(b, "\t\t)\n\t\t_describe -t %s %s commands\n", cmp.Or(group.Key, "command"),
				quoted(strings.ToLower(group.Title)))
		}
	}
}

// zshParts returns the action that completes the parts of a flag's value, such as escapes=fold, escapes=keep and sort.
func zshParts(words []string) string {
	var names []string
	values := map[string]string{}
	for _, word := range words {
		name, value, valued := strings.Cut(word, "=")
		if valued {
			name += `\:value`
			values[name] += " " + value
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	action := "_values -s , parts"
	for _, name := range names {
		action += " " + name
		if list := strings.TrimSpace(values[name]); list != "" {
			action += `\:"(` + list + `)"`
		}
	}
	return action
}

// fish returns a script for fish.
func fish(list []node) []byte {
	quote := strings.NewReplacer(`\`, `\\`, "'", `\'`)
	var b bytes.Buffer
	b.WriteString(`# Completion of drumbeat for fish: put it into ~/.config/fish/completions/drumbeat.fish.
function __drumbeat_at
    set -l words (commandline -opc)
    for i in (seq (count $argv))
        test "$words[(math $i + 1)]" = "$argv[$i]"; or return 1
    end
end
function __drumbeat_next
    test (count (commandline -opc)) -eq (math (count $argv) + 1); and __drumbeat_at $argv
end
complete -c drumbeat -f
`)
	for _, n := range list {
		at := strings.TrimSpace("__drumbeat_at " + n.path)
		for _, child := range n.children {
			fmt.Fprintf(&b, "complete -c drumbeat -n '%s' -a %s -d '%s'\n",
				strings.TrimSpace("__drumbeat_next "+n.path),
				child.Name, quote.Replace(flags.FirstSentence(child.Help)))
		}
		if len(n.children) > 0 {
			continue
		}
		for _, f := range n.flags {
			names := "-l " + f.name
			if f.short != 0 {
				names = "-s " + string(f.short) + " " + names
			}
			fmt.Fprintf(&b, "complete -c drumbeat -n '%s' %s%s -d '%s'\n", at, names, fishValue(f.value),
				quote.Replace(f.help))
		}
		if rest := strings.TrimPrefix(fishValue(n.argument), " -x"); n.argument.takes && rest != "" {
			fmt.Fprintf(&b, "complete -c drumbeat -n '%s'%s\n", at, strings.Replace(rest, " -r", "", 1))
		}
	}
	return b.Bytes()
}

// fishValue returns the options of complete for a value.
func fishValue(c complete) string {
	switch {
	case c.parts:
		return ` -x -a '(__fish_complete_list , "string split \" \" \"` + strings.Join(c.words, " ") + `\"")'`
	case c.words != nil:
		return " -x -a '" + strings.Join(c.words, " ") + "'"
	case c.dir:
		return " -x -a '(__fish_complete_directories)'"
	case c.file:
		return " -r -F"
	case c.takes:
		return " -x"
	}
	return ""
}
