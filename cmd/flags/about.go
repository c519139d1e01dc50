package flags

import (
	"fmt"
	"strings"

	"drumbeat/state"
)

// About has the texts for people who get the results of a crawl.
type About struct {
	Title       string `group:"output" placeholder:"TEXT"`
	Description string `group:"output" placeholder:"TEXT"`
	Operator    string `group:"output" placeholder:"NAME"`
}

// Texts returns the texts without white space around them, or the first fault.
func (a *About) Texts() (state.About, error) {
	texts := state.About{Title: strings.TrimSpace(a.Title), Description: strings.TrimSpace(a.Description),
		Operator: strings.TrimSpace(a.Operator)}
	if err := texts.Check(); err != nil {
		return texts, fmt.Errorf("--%w", err)
	}
	return texts, nil
}
