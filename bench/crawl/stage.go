package crawl

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"drumbeat/crawl/account"
)

// crawlStage is a part of the work on a page.
type crawlStage int

const (
	stageConnect crawlStage = iota
	stageTLS
	stageRead
	stageDecode
	stageParse
	stageCanonical
	stageURLSeen
	stageStarBeast
	stageDNS
	stageRobots
	stagePolite
	stageStore
	stageCrawler
	stageCheckpoint
	stageGenerator
	stageGC
	stageRuntime
	numStages
)

var stageNames = [numStages]string{"connect", "TLS", "request, read", "decode", "parse", "canonicalise", "URLseen",
	"STAR, BEAST", "DNS", "robots", "polite", "store", "crawler", "checkpoint", "generator", "runtime: GC",
	"runtime: rest"}

func (s crawlStage) String() string { return stageNames[s] }

// stageRule assigns a function, or all functions with a prefix, to a stage.
type stageRule struct {
	// As in a profile: path of the package, dot, function or (*Type).method; a closure's name continues with
	// .func1.
	prefix string
	stage  crawlStage
}

// stageRules assign samples to stages: the innermost frame with a rule decides, by the longest prefix.
// Packages without a rule, such as drum, queue, disk, the compressor or the poller, count for their caller.
var stageRules = []stageRule{
	{"drumbeat/fetch.(*exchange).open", stageConnect},
	{"drumbeat/fetch.(*exchange).dial", stageConnect},
	{"drumbeat/fetch.(*conn).close", stageConnect},
	{"drumbeat/fetch.(*exchange).reuse", stageConnect},
	{"drumbeat/fetch.(*exchange).finish", stageConnect},
	{"drumbeat/fetch.(*idlePool)", stageConnect},
	{"drumbeat/fetch.(*exchange).handshake", stageTLS},
	{"crypto/tls.", stageTLS},
	{"drumbeat/fetch.(*exchange).decode", stageDecode},
	{"drumbeat/parse.", stageParse},
	{"drumbeat/weburl.(*Resolver)", stageCanonical},
	{"drumbeat/weburl.(*Base)", stageCanonical},
	{"drumbeat/weburl.Canonical", stageCanonical},
	{"drumbeat/admit.(*Batch)", stageURLSeen},
	{"drumbeat/crawl/seen.(*Stage).MergeSeen", stageURLSeen},
	{"drumbeat/crawl/seen.(*Stage).SendLinks", stageURLSeen},
	{"drumbeat/star.", stageStarBeast},
	{"drumbeat/beast.", stageStarBeast},
	{"drumbeat/dnscache.", stageDNS},
	{"drumbeat/robots.", stageRobots},
	{"drumbeat/polite.", stagePolite},
	{"drumbeat/cluster/lease.", stagePolite},
	{"drumbeat/crawl/dispatch.(*Dispatcher).nextGrant", stagePolite},
	{"drumbeat/warc.", stageStore},
	{"drumbeat/warc/outfile.", stageStore},
	{"drumbeat/internal/crawllog.", stageStore},
	{"drumbeat/crawl/visit.(*Pages).warcExchange", stageStore},
	{"drumbeat/internal/simweb.", stageGenerator},
	{"runtime.gcBgMarkWorker", stageGC},
	{"runtime.gcAssistAlloc", stageGC},
	{"runtime.bgsweep", stageGC},
	{"runtime.bgscavenge", stageGC},
	{"runtime.gcStart", stageGC},
}

// weakStageRules apply if no frame matches stageRules: they cover the rest of packages that have several
// stages.
var weakStageRules = []stageRule{
	{"drumbeat/fetch.", stageRead},
	{"drumbeat/bench/crawl.", stageGenerator},
	{"drumbeat/crawl.", stageCrawler},
	{"drumbeat/crawl/dispatch.", stageCrawler},
	{"drumbeat/crawl/visit.", stageCrawler},
}

// partOfStage maps a stage of the crawl to the part of a page's cost for samples without a matching frame.
// The stages of robots.txt count as robots, with their exchanges but without lookups.
var partOfStage = map[string]crawlStage{
	"urlseen": stageURLSeen, "content": stageStore, "seeds": stageCrawler, "star": stageStarBeast,
	"beast": stageStarBeast, "scan": stageStarBeast, "robotscache": stageRobots, "robotsrequested": stageRobots,
	"awaitrobots": stageRobots, "robotsasks": stageRobots, "robotsfetch": stageRobots,
	"ready": stagePolite, "deferred": stagePolite,
	"visits": stagePolite, "relieve": stagePolite, "reload": stageCrawler, "checkpoint": stageCheckpoint,
	"watch": stageCrawler, "space": stageCrawler, "progress": stageCrawler, "pulse": stageCrawler,
	"slots": stageCrawler, "slowdirs": stageCrawler, "codings": stageCrawler, "held": stageCrawler,
	"names": stageStarBeast, "canaries": stageRobots, "operator": stageCrawler, "history": stageCrawler,
	"render": stageStore, "renderasks": stageStore, "supporters": stageStarBeast, "extract": stageStore,
	"upload": stageStore,
	"walk":   stageCrawler, "watchlist": stageCrawler, "backup": stageStore,
}

// stageOfFunction returns the stage of a function by the given rules; ok is false if none matches.
func stageOfFunction(rules []stageRule, name string) (stage crawlStage, ok bool) {
	length := 0
	for _, r := range rules {
		if len(r.prefix) > length && strings.HasPrefix(name, r.prefix) {
			stage, length = r.stage, len(r.prefix)
		}
	}
	return stage, length > 0
}

// stageTimes is the CPU time by stage in a profile.
type stageTimes struct {
	At  [numStages]time.Duration
	Sum time.Duration
	// Unmatched are the innermost functions of samples without a rule, those with the most time.
	Unmatched []string
}

// share returns the stage's share of all CPU time.
func (t *stageTimes) share(s crawlStage) float64 { return float64(t.At[s]) / float64(max(1, t.Sum)) }

// stagesOf assigns each sample of a CPU profile to a stage.
func stagesOf(raw []byte) (t stageTimes, err error) {
	p, err := profile.ParseData(raw)
	if err != nil {
		return t, fmt.Errorf("bench: crawl: CPU profile: %w", err)
	}
	value := len(p.SampleType) - 1 // samples, then nanoseconds
	rest := map[string]time.Duration{}
	memory := stageMemory{}
	for _, s := range p.Sample {
		stage, ok := memory.of(s)
		if !ok {
			rest[innermost(s)] += time.Duration(s.Value[value])
		}
		t.At[stage] += time.Duration(s.Value[value])
		t.Sum += time.Duration(s.Value[value])
	}
	names := make([]string, 0, len(rest))
	for name := range rest {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return int(rest[b] - rest[a]) })
	for _, name := range names[:min(len(names), 12)] {
		t.Unmatched = append(t.Unmatched,
			fmt.Sprintf("%s %.1f %%", name, 100*float64(rest[name])/float64(max(1, t.Sum))))
	}
	return t, nil
}

func innermost(s *profile.Sample) string {
	if len(s.Location) == 0 || len(s.Location[0].Line) == 0 || s.Location[0].Line[0].Function == nil {
		return "unknown"
	}
	return s.Location[0].Line[0].Function.Name
}

// stageMemory caches the results of the rules by function.
type stageMemory map[string]struct {
	strong, weak     crawlStage
	isStrong, isWeak bool
}

// of returns the stage of a sample; ok is false if no rule matches.
func (m stageMemory) of(s *profile.Sample) (stage crawlStage, ok bool) {
	label := ""
	if l := s.Label[account.StageLabel]; len(l) > 0 {
		label = l[0]
	}
	byStage, moves := partOfStage[label]
	weak := false
	for _, loc := range s.Location {
		for _, line := range loc.Line {
			if line.Function == nil {
				continue
			}
			name := line.Function.Name
			f, known := m[name]
			if !known {
				f.strong, f.isStrong = stageOfFunction(stageRules, name)
				f.weak, f.isWeak = stageOfFunction(weakStageRules, name)
				m[name] = f
			}
			if f.isStrong && (byStage != stageRobots || !moves || f.strong == stageDNS || f.strong == stageGC) {
				return f.strong, true
			}
			if f.isWeak && !weak {
				stage, weak = f.weak, true
			}
		}
	}
	if moves {
		return byStage, true
	}
	if !weak {
		return stageRuntime, false
	}
	return stage, true
}
