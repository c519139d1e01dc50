package result

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Machine describes the machine and the program of a report.
type Machine struct {
	CPU       string `json:"cpu"`
	CPUs      int    `json:"cpus"` // GOMAXPROCS
	RAMBytes  int64  `json:"ramBytes"`
	Kernel    string `json:"kernel"`
	GoVersion string `json:"goVersion"`
	// Commit is the revision of the program, with "+" if it had local changes; empty if unknown.
	Commit string `json:"commit"`
	// Load is the load average of the last minute when the report began. It shows how much other processes
	// may have disturbed the measurement.
	Load string `json:"load"`
}

// New begins the report of a command.
func New(name, title string) *Report {
	return &Report{Name: name, Title: title, Machine: ThisMachine(), Began: time.Now().UTC()}
}

// ThisMachine reads the facts about the machine; unknown ones stay empty.
func ThisMachine() Machine {
	m := Machine{
		CPU: procField("/proc/cpuinfo", "model name"), CPUs: runtime.GOMAXPROCS(0), GoVersion: runtime.Version(),
		Kernel: strings.TrimSpace(procText("/proc/sys/kernel/osrelease")),
	}
	if kb, ok := strings.CutSuffix(procField("/proc/meminfo", "MemTotal"), " kB"); ok {
		if n, err := strconv.ParseInt(kb, 10, 64); err == nil {
			m.RAMBytes = n << 10
		}
	}
	m.Load, _, _ = strings.Cut(procText("/proc/loadavg"), " ")
	if info, ok := debug.ReadBuildInfo(); ok {
		changed := ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				m.Commit = s.Value[:min(len(s.Value), 12)]
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = "+"
			}
		}
		m.Commit += changed
	}
	return m
}

// procText returns the content of a small file of /proc, or an empty string.
func procText(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(b)
}

// procField returns the value after the first "field :" of a file.
func procField(name, field string) string {
	lines := bufio.NewScanner(strings.NewReader(procText(name)))
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// settings returns the machine's lines of a report.
func (m Machine) settings() []Setting {
	return []Setting{
		{"cpu", m.CPU}, {"cpus", strconv.Itoa(m.CPUs)}, {"ram", fmt.Sprintf("%.1f GiB", float64(m.RAMBytes)/(1<<30))},
		{"kernel", m.Kernel}, {"go", m.GoVersion}, {"commit", m.Commit}, {"load", m.Load},
	}
}
