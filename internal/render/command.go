package render

import (
	"fmt"
	"strings"
)

// commandWidth is the width of a line of a Command, in bytes, unless a single argument is longer.
const commandWidth = 110

// Command returns the command that starts a browser for the crawler, for a POSIX shell: program is its name or path,
// and the DevTools listen on port of loopback. The browser has all flags that it must have (Flags), and a new profile.
// The text has several lines, each but the last one with a backslash at its end.
func Command(program string, port int) string {
	words := []string{quoted(program), "--headless=new", "--disable-gpu", "--no-first-run",
		fmt.Sprintf("--remote-debugging-port=%d", port), `--user-data-dir="$(mktemp -d)"`}
	for _, flag := range fences {
		words = append(words, quoted(flag))
	}
	var b strings.Builder
	width := 0
	for i, word := range append(words, "about:blank") {
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

// quoted returns a word as a shell reads it.
func quoted(word string) string {
	if strings.IndexFunc(word, func(r rune) bool { return !strings.ContainsRune(plainRunes, r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// plainRunes mean nothing to a shell.
const plainRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+@%"
