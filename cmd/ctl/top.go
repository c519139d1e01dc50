package ctl

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"drumbeat/admin"
	"drumbeat/cmd/term"
)

type topCmd struct{}

// Run shows the state until q is pressed.
func (topCmd) Run(a *term.App, w *Where) error {
	c, err := w.client()
	if err != nil {
		return classify(err)
	}
	ctx, release := a.StopOnSignal(context.Background())
	defer release()
	if _, err := admin.Get[admin.Status](ctx, c, "/api/v1/status"); err != nil {
		return classify(err)
	}
	p := tea.NewProgram(topModel{client: c, ctx: ctx}, tea.WithAltScreen(), tea.WithContext(ctx), tea.WithInput(a.Stdin), tea.WithOutput(a.Stdout))
	_, err = p.Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// topEvery is the interval between two looks at the crawl.
const topEvery = time.Second

// topModel is what the screen shows.
type topModel struct {
	client *admin.Client
	ctx    context.Context

	status *admin.Status
	slots  *admin.Slots
	rates  []float64 // pages a second of the last looks
	err    error
	note   string // result of the last key
	width  int
	height int
}

// The messages of the program.
type (
	looked struct {
		status *admin.Status
		slots  *admin.Slots
		err    error
	}
	timeToLook struct{}
	noted      string
)

// Init looks at the crawl.
func (m topModel) Init() tea.Cmd { return m.look }

// look asks the server.
func (m topModel) look() tea.Msg {
	status, err := admin.Get[*admin.Status](m.ctx, m.client, "/api/v1/status")
	if err != nil {
		return looked{err: err}
	}
	slots, err := admin.Get[*admin.Slots](m.ctx, m.client, "/api/v1/slots")
	return looked{status, slots, err}
}

// toggle pauses the crawl or resumes it.
func (m topModel) toggle() tea.Msg {
	path := "/api/v1/pause"
	if m.status != nil && m.status.State == "paused" {
		path = "/api/v1/resume"
	}
	if _, err := m.client.Do(m.ctx, http.MethodPost, path, nil); err != nil {
		return noted(err.Error())
	}
	return noted("")
}

// sparkPoints is how many rates are kept.
const sparkPoints = 120

// Update takes a message.
func (m topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		case "p":
			return m, m.toggle
		}
	case noted:
		m.note = string(msg)
		return m, m.look
	case timeToLook:
		return m, m.look
	case looked:
		m.err = msg.err
		if msg.err == nil {
			m.status, m.slots = msg.status, msg.slots
			m.rates = append(m.rates, msg.status.Rates.Pages)
			m.rates = m.rates[max(0, len(m.rates)-sparkPoints):]
		}
		return m, tea.Tick(topEvery, func(time.Time) tea.Msg { return timeToLook{} })
	}
	return m, nil
}

// View draws the screen.
func (m topModel) View() string {
	if m.status == nil {
		if m.err != nil {
			return "drumbeat: " + term.PlainText(m.err.Error()) + "\nq: quit\n"
		}
		return "…\n"
	}
	var b bytes.Buffer
	s := m.status
	fmt.Fprintf(&b, "drumbeat %s  %s  %s  q: quit  p: pause or resume\n", s.Version, s.Host, s.Time.Local().Format(time.TimeOnly))
	if m.err != nil {
		fmt.Fprintf(&b, "NO ANSWER: %v\n", m.err)
	}
	if m.note != "" {
		fmt.Fprintf(&b, "%s\n", m.note)
	}
	fmt.Fprintf(&b, "pages/s  %s\n", spark(m.rates, max(10, m.width-10)))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	printStatus(t, s)
	if m.slots != nil && m.slots.Total > 0 {
		for _, u := range m.slots.Uses {
			if u.Now >= 0.5 {
				fmt.Fprintf(t, "slots: %s\t%s %.0f\n", u.Name, bar(u.Now/float64(m.slots.Total), 30), u.Now)
			}
		}
	}
	_ = t.Flush() // writes to memory
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if m.height > 0 && len(lines) > m.height {
		lines = lines[:m.height]
	}
	for i, line := range lines {
		line = term.PlainText(line)
		if r := []rune(line); m.width > 0 && len(r) > m.width {
			line = string(r[:m.width])
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// spark draws the last values as blocks, at most width.
func spark(values []float64, width int) string {
	const blocks = "▁▂▃▄▅▆▇█"
	levels := []rune(blocks)
	values = values[max(0, len(values)-width):]
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		n := 0
		if most > 0 {
			n = int(v / most * float64(len(levels)-1))
		}
		b.WriteRune(levels[n])
	}
	return b.String()
}

// bar draws a share of width.
func bar(share float64, width int) string {
	n := int(min(1, max(0, share))*float64(width) + 0.5)
	return strings.Repeat("█", n) + strings.Repeat("░", width-n)
}
