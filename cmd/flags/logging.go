package flags

import "log/slog"

// Logging holds the flags that select what a crawl prints while it runs.
type Logging struct {
	Quiet     bool   `group:"report" short:"q" help:"Print no progress, and no message below a warning."`
	LogLevel  string `group:"report" enum:"debug,info,warn,error" default:"info" help:"Log messages of this level and above: debug, info, warn or error."`
	LogFormat string `group:"report" enum:"text,json" default:"text" help:"Write the log as text, or as a JSON object on each line. json prints progress as log lines on a terminal, too."`
}

// Level returns the lowest level to log.
func (l *Logging) Level() (level slog.Level) {
	_ = level.UnmarshalText([]byte(l.LogLevel)) // the parser has checked the name
	if l.Quiet {
		level = max(level, slog.LevelWarn)
	}
	return level
}

// JSON reports whether the log is JSON.
func (l *Logging) JSON() bool { return l.LogFormat == "json" }
