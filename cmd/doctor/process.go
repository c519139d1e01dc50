package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drumbeat/cmd/flags"
	"drumbeat/cmd/term"
	"drumbeat/internal/human"
)

// checkKernel: docs/reference/contract.md names Linux 5.8, from which sync reports every write-back error.
func checkKernel(_ context.Context, e *env) []finding {
	text, err := e.text("proc/sys/kernel/osrelease")
	if err != nil {
		return cannot("kernel", err)
	}
	var major, minor int
	if n, _ := fmt.Sscanf(text, "%d.%d", &major, &minor); n != 2 {
		return cannot("kernel", fmt.Errorf("%q is not a version", text))
	}
	r := finding{Check: "kernel", Now: "Linux " + text, Need: "5.8 or later"}
	r.at(warn, major < 5 || major == 5 && minor < 8, "upgrade the kernel; "+
		"docs/reference/contract.md lists what older kernels lack")
	return []finding{r}
}

// limit returns the soft and the hard limit of a line of /proc/self/limits; math.MaxInt64 is unlimited.
func (e *env) limit(name string) (soft, hard int64, err error) {
	text, err := e.text("proc/self/limits")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(text) {
		rest, is := strings.CutPrefix(line, name+" ")
		f := strings.Fields(rest)
		if !is || len(f) < 2 {
			continue
		}
		var values [2]int64
		for i, v := range f[:2] {
			if values[i], err = strconv.ParseInt(v, 10, 64); v == "unlimited" {
				values[i], err = math.MaxInt64, nil
			}
			if err != nil {
				return 0, 0, fmt.Errorf("read /proc/self/limits: %s: %q is not a number", name, v)
			}
		}
		return values[0], values[1], nil
	}
	return 0, 0, fmt.Errorf("read /proc/self/limits: no line %q", name)
}

// checkOpenFiles: the Go runtime has raised the soft limit to the hard one.
func checkOpenFiles(_ context.Context, e *env) []finding {
	soft, hard, err := e.limit("Max open files")
	if err != nil {
		return cannot("open files", err)
	}
	n := e.need
	least := n.Connections + n.Files
	most := least + n.Idle
	r := finding{Check: "open files", Now: fmt.Sprintf("soft %s, hard %s", comma(soft), comma(hard)),
		Need: fmt.Sprintf("%s: %s, %s, %s idle",
			comma(most), human.Counted(n.Connections, "connection", "connections"),
			human.Counted(n.Files, "file", "files"), comma(n.Idle))}
	want := power(most)
	fix := []string{fmt.Sprintf("ulimit -n %d (as root, in the shell that starts the crawl)", want),
		fmt.Sprintf("LimitNOFILE=%d (in the systemd unit)", want),
		fmt.Sprintf("USER - nofile %d (in /etc/security/limits.conf, then log in again)", want)}
	r.at(fail, soft < least, fix...)
	r.at(warn, soft < most, fix...)
	return []finding{r}
}

// checkSystemFiles: the limit of all processes together, which is huge unless somebody set it.
func checkSystemFiles(_ context.Context, e *env) []finding {
	list, err := e.numbers("proc/sys/fs/file-nr", 3) // open, free, limit
	if err != nil {
		return cannot("fs.file-max", err)
	}
	most := e.need.Connections + e.need.Files + e.need.Idle
	used, limit := list[0]-list[1], list[2]
	r := finding{Check: "fs.file-max", Now: fmt.Sprintf("%s, %s open", comma(limit), comma(used)),
		Need: comma(most) + " for the crawl"}
	r.at(fail, limit-used < most, fmt.Sprintf("sysctl -w fs.file-max=%d", power(used+2*most)))
	return []finding{r}
}

// checkProcessLimits: limits that are unlimited by default, and that end the crawl late.
func checkProcessLimits(_ context.Context, e *env) []finding {
	files, _, err1 := e.limit("Max file size")
	space, _, err2 := e.limit("Max address space")
	if err := errors.Join(err1, err2); err != nil {
		return cannot("process limits", err)
	}
	const fixFiles = "ulimit -f unlimited, or LimitFSIZE=infinity in the systemd unit"
	const fixSpace = "ulimit -v unlimited, or LimitAS=infinity in the systemd unit"
	r := finding{Check: "process limits", Need: "unlimited",
		Now: "file size " + sizeLimit(files) + ", address space " + sizeLimit(space)}
	r.at(fail, files < min(e.need.LargestFile, warcFile), fixFiles)
	r.at(fail, space < e.need.RAMBytes, fixSpace)
	r.at(warn, files < math.MaxInt64, fixFiles)
	r.at(warn, space < math.MaxInt64, fixSpace)
	return []finding{r}
}

// warcFile is the size that every crawl's WARC files reach, with a margin for the last record.
const warcFile = 2e9

func sizeLimit(n int64) string {
	if n == math.MaxInt64 {
		return "unlimited"
	}
	return human.Bytes(n)
}

// coreRate is the pages/s of one processor that the plan assumes.
const coreRate = 1000

// checkCPU compares processors, less the quota of the cgroup, with the planned rate.
func checkCPU(_ context.Context, e *env) []finding {
	cores, now := float64(e.cpus), plural(int64(e.cpus), "core")
	if quota := e.cpuQuota(); quota > 0 && quota < cores {
		cores = quota
		now += fmt.Sprintf(", cgroup allows %.3g", quota)
	}
	needed := e.need.Rate / coreRate
	r := finding{Check: "CPU", Need: fmt.Sprintf("%.2g for %s pages/s", max(0.1, needed), number(e.need.Rate))}
	fix := []string{fmt.Sprintf("--max-rate %d, to plan for these", int(cores*coreRate))}
	if cores < float64(e.cpus) {
		fix = append(fix,
			fmt.Sprintf("CPUQuota=%.0f%% in the systemd unit, --cpus of the container", 100*math.Ceil(needed)))
	}
	r.at(warn, cores < needed, fix...)
	if text, err := e.text("proc/loadavg"); err == nil {
		load, err := strconv.ParseFloat(strings.SplitN(text, " ", 2)[0], 64)
		now += fmt.Sprintf(", load %.2f", load)
		r.at(warn, err == nil && load > cores/2, "other programs use the CPUs: stop them, or expect fewer pages/s")
	}
	r.Now = now
	return []finding{r}
}

// cpuQuota returns the least number of CPUs that the cgroups of the process allow; 0: no quota.
func (e *env) cpuQuota() (least float64) {
	lower := func(quota, period string) {
		q, err1 := strconv.ParseFloat(quota, 64)
		p, err2 := strconv.ParseFloat(period, 64)
		if err1 == nil && err2 == nil && q > 0 && p > 0 && (least == 0 || q/p < least) {
			least = q / p
		}
	}
	for _, text := range term.CgroupFiles(e.root, "", "cpu.max") { // "max 100000" or "150000 100000"
		if quota, period, is := strings.Cut(text, " "); is {
			lower(quota, period)
		}
	}
	quotas := term.CgroupFiles(e.root, "cpu", "cpu.cfs_quota_us") // -1: none
	periods := term.CgroupFiles(e.root, "cpu", "cpu.cfs_period_us")
	if len(quotas) == len(periods) {
		for i := range quotas {
			lower(quotas[i], periods[i])
		}
	}
	return least
}

// memory returns the values of /proc/meminfo in bytes.
func (e *env) memory(names ...string) ([]int64, error) {
	text, err := e.text("proc/meminfo")
	if err != nil {
		return nil, err
	}
	values := make([]int64, len(names))
	for i, name := range names {
		_, rest, is := strings.Cut("\n"+text, "\n"+name+":")
		f := strings.Fields(rest)
		if !is || len(f) == 0 {
			return nil, fmt.Errorf("read /proc/meminfo: no line %q", name)
		}
		if values[i], err = strconv.ParseInt(f[0], 10, 64); err != nil {
			return nil, fmt.Errorf("read /proc/meminfo: %s: %w", name, err)
		}
		values[i] <<= 10
	}
	return values, nil
}

// checkRAM: --ram bounds the process without the kernel's memory for sockets and its page cache.
func checkRAM(_ context.Context, e *env) []finding {
	m, err := e.memory("MemTotal", "MemAvailable")
	if err != nil {
		return cannot("RAM", err)
	}
	total, available, ram := m[0], m[1], e.need.RAMBytes
	now := fmt.Sprintf("%s, %s available", human.Bytes(total), human.Bytes(available))
	var raise []string
	if limit, is := term.CgroupMemory(e.root); is && limit < total {
		total, available = limit, min(available, limit)
		now += ", cgroup allows " + human.Bytes(limit)
		raise = []string{"MemoryMax= in the systemd unit, or --memory of the container: a larger limit"}
	}
	r := finding{Check: "RAM", Now: now, Need: human.Bytes(ram) + " and room for the kernel"}
	lower := func(n int64) string { return "--ram " + (flags.Size(max(n>>20, 1)) << 20).String() }
	r.at(fail, ram > total, append(raise, lower(total/2))...)
	r.at(warn, ram > available, "stop programs that hold RAM, or "+lower(available/10*9))
	r.at(warn, ram > total/10*9, append(raise, lower(total/10*9))...)
	return []finding{r}
}

// checkSwap: a crawl whose RAM is swapped out is slow. Swap space as such does no harm.
func checkSwap(_ context.Context, e *env) []finding {
	m, err := e.memory("SwapTotal", "SwapFree")
	if err != nil {
		return cannot("swap", err)
	}
	used := m[0] - m[1]
	r := finding{Check: "swap", Now: "none", Need: "none in use"}
	if m[0] > 0 {
		r.Now = fmt.Sprintf("%s, %s in use", human.Bytes(m[0]), human.Bytes(used))
	}
	r.at(warn, used > m[0]/4, "swapoff -a && swapon -a, if RAM suffices; sysctl -w vm.swappiness=1")
	return []finding{r}
}

// checkOvercommit: with vm.overcommit_memory=2 the kernel refuses memory beyond a sum, used or not.
func checkOvercommit(_ context.Context, e *env) []finding {
	mode, err := e.number("proc/sys/vm/overcommit_memory")
	if err != nil {
		return cannot("overcommit", err)
	}
	r := finding{Check: "overcommit", Now: "vm.overcommit_memory=" + strconv.FormatInt(mode, 10), Need: "0 or 1"}
	if mode != 2 {
		return []finding{r}
	}
	m, err := e.memory("CommitLimit", "Committed_AS")
	if err != nil {
		return cannot("overcommit", err)
	}
	left := m[0] - m[1]
	r.Now += ", " + human.Bytes(left) + " left"
	r.at(fail, left < e.need.RAMBytes, "sysctl -w vm.overcommit_memory=0")
	r.at(warn, true, "sysctl -w vm.overcommit_memory=0")
	return []finding{r}
}

// mostStep is the step of the clock during the checks that is reported.
const mostStep = 50 * time.Millisecond

// builtAfter is a time that is past wherever this program runs.
var builtAfter = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// checkClock: certificates, WARC dates and Retry-After need the time. The crawl copes with steps.
func checkClock(_ context.Context, e *env) []finding {
	now, wall, mono := e.elapsed()
	var tx unix.Timex
	state, err := e.adjtimex(&tx)
	r := finding{Check: "clock", Need: "synchronized, no steps"}
	sync := "timedatectl set-ntp true (systemd-timesyncd), or install chrony"
	switch {
	case err != nil:
		r.Status, r.Now = unknown, "adjtimex: "+err.Error()
	case state == unix.TIME_ERROR || tx.Status&unix.STA_UNSYNC != 0:
		r.Now = "not synchronized"
		r.at(warn, true, sync)
	default:
		most := time.Duration(tx.Maxerror) * time.Microsecond
		r.Now = fmt.Sprintf("synchronized, error up to %s", human.Duration(most))
	}
	if step := wall - mono; step.Abs() > mostStep {
		r.Now += fmt.Sprintf(", stepped by %s", human.Duration(step.Round(time.Millisecond)))
		r.at(warn, true, sync)
	}
	if now.Before(builtAfter) {
		r.Now += ", it is " + now.UTC().Format(time.DateOnly)
		r.at(fail, true, "date -s TIME, then "+sync)
	}
	return []finding{r}
}
