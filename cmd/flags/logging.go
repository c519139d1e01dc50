package flags

import "log/slog"

// Logging holds the flags that select what a crawl prints while it runs.
type Logging struct {
	Quiet     bool   `group:"report" short:"q" xor:"loud"`
	Verbose   bool   `group:"report" short:"v" xor:"loud"`
	LogLevel  string `group:"report" enum:"debug,info,warn,error" default:"info"`
	LogFormat string `group:"report" enum:"text,json" default:"text"`
}

// Level returns the lowest level to log.
func (l *Logging) Level() (level slog.Level) {
	_ = level.UnmarshalText([]byte(l.LogLevel)) // the parser has checked the name
	switch {
	case l.Quiet:
		level = max(level, slog.LevelWarn)
	case l.Verbose:
		level = slog.LevelDebug
	}
	return level
}

// JSON reports whether the log is JSON.
func (l *Logging) JSON() bool { return l.LogFormat == "json" }
