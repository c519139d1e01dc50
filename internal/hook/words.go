package hook

import (
	"errors"
	"strings"
)

// Words splits a command into words at spaces, tabs and newlines. Single and double quotes hold a word together,
// and a backslash before a quote, a backslash or a space takes it as it is, except in single quotes. There are no
// variables, patterns or pipes: for these, run sh -c.
func Words(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun := false
	quote := byte(0)
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(command) && strings.IndexByte(`"'\ `, command[i+1]) >= 0:
			i++
			word.WriteByte(command[i])
			begun = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '"' || c == '\'':
			quote, begun = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if begun {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("no program is named")
	}
	return words, nil
}
