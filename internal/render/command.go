package render

import (
	"fmt"
	"os/exec"
	"strings"
)

// commandWidth is the width of a line of a Command, in bytes, unless a single argument is longer.
const commandWidth = 110

// Command returns the command that starts a browser for the crawler, for a POSIX shell: program is its name or path,
// and the DevTools listen on port of loopback. The browser has all flags that it must have (Flags), and a new profile.
// The text has several lines, each but the last one with a backslash at its end.
func Command(program string, port int) string {
	words := []string{quoted(program)}
	const profile = "PROFILE" // the shell makes it
	for _, arg := range arguments(fmt.Sprintf("--remote-debugging-port=%d", port), profile) {
		if flag, ok := strings.CutSuffix(arg, profile); ok {
			words = append(words, flag+`"$(mktemp -d)"`)
		} else {
			words = append(words, quoted(arg))
		}
	}
	var b strings.Builder
	width := 0
	for i, word := range words {
		switch {
		case i == 0:
		case width+len(" ")+len(word)+len(` \`) > commandWidth:
			b.WriteString(" \\\n    ")
			width = len("    ")
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	return b.String()
}

// arguments returns the arguments of a browser for the crawler. debugging is the flag for the DevTools, profile the
// directory of a new profile.
func arguments(debugging, profile string) []string {
	args := []string{"--headless=new", "--disable-gpu", "--no-first-run", debugging, "--user-data-dir=" + profile}
	return append(append(args, fences[:]...), "about:blank")
}

// programs are names of Chromium, the preferred one first.
var programs = [...]string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"}

// Installed returns the name of the first Chromium that is in PATH, and whether there is one; else its usual name.
func Installed() (name string, ok bool) {
	for _, name := range programs {
		if _, err := exec.LookPath(name); err == nil {
			return name, true
		}
	}
	return programs[0], false
}

// quoted returns a word as a shell reads it.
func quoted(word string) string {
	if strings.IndexFunc(word, func(r rune) bool { return !strings.ContainsRune(plainRunes, r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// plainRunes mean nothing to a shell.
const plainRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+@%"
