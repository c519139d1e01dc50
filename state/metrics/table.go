package metrics

import (
	"slices"
	"strconv"

	"drumbeat/state"
	"drumbeat/state/condition"
	"drumbeat/state/snapshot"
)

// table is made once and does not change.
var table = slices.Concat(describe("", ofCrawl(&snap{})), describe("", ofStructures(&snap{})),
	describe("", ofCluster(&snap{})), describe("dir", ofDir(&snapshot.Dir{})),
	describe("node", ofPair(&snapshot.Pair{})), counters(), byCoding(), byVerdict(), byLabel(), histograms(), health())

// dirMetrics is the number of metrics of a directory.
var dirMetrics = len(ofDir(&snapshot.Dir{}))

type (
	snap = snapshot.Snapshot
	emit = func(label string, v float64)
)

// counters returns the metrics of the counters of package state.
func counters() (list []Metric) {
	for c := range state.NumCounters {
		if c >= state.CountRobotsStatusOther && c <= state.CountRobotsStatus5xx {
			continue // one metric below
		}
		if c >= state.CountCoded && c < state.CountBytesUncoded+state.Counter(len(state.Codings)) {
			continue // in byCoding
		}
		if c >= state.CountTLSBad && c < state.CountTLSBad+state.Counter(len(state.TLSVerdicts)) {
			continue // in byVerdict
		}
		if c == state.CountSigned || c == state.CountSignedAsked {
			continue // in byLabel
		}
		row := counterRows[c]
		name, scale := row.name, row.scale
		if name == "" {
			name = c.String()
		}
		if scale == 0 {
			scale = 1
		}
		list = append(list, Metric{Name: name + "_total", Help: row.help, Unit: row.unit,
			each: func(s *snap, f emit) { f("", float64(s.Count(c))*scale) }})
	}
	return append(list, Metric{Name: "robots_responses_total", Label: "class",
		Help: "Responses for robots.txt by class of status",
		each: func(s *snap, f emit) {
			for class := range state.Counter(6) {
				name := strconv.Itoa(int(class)) + "xx"
				if class == 0 {
					name = "other"
				}
				f(name, float64(s.Count(state.CountRobotsStatusOther+class)))
			}
		}})
}

// byCoding returns the metrics of the counters by content coding.
func byCoding() (list []Metric) {
	for _, row := range []struct {
		first            state.Counter
		name, help, unit string
	}{
		{state.CountCoded, "coded_responses_total", "Responses with a compressed body by content coding", ""},
		{state.CountBytesCoded, "coded_received_bytes_total",
			"Bytes of compressed bodies as received by content coding", "bytes"},
		{state.CountBytesUncoded, "coded_decoded_bytes_total",
			"Bytes of compressed bodies after decoding by content coding", "bytes"},
	} {
		list = append(list, Metric{Name: row.name, Help: row.help, Unit: row.unit, Label: "coding",
			each: func(s *snap, f emit) {
				for i, coding := range state.Codings {
					f(coding, float64(s.Count(row.first+state.Counter(i))))
				}
			}})
	}
	return list
}

// health returns the metrics of the condition of the crawl.
func health() []Metric {
	return []Metric{{Name: "health", Label: "state", Kind: Gauge,
		Help: "The condition of the crawl: 1 for its state, 0 for all others", each: func(s *snap, f emit) {
			now := condition.Of(s)
			for _, st := range condition.States[:slices.Index(condition.States, condition.Complete)] {
				v := 0.0
				if st == now.State {
					v = 1
				}
				f(string(st), v)
			}
		}}, {Name: "health_level", Kind: Gauge, Help: "How bad the condition of the crawl is: 0 ok, 1 a warning, 2 bad",
		each: func(s *snap, f emit) {
			f("", map[condition.Level]float64{condition.Warn: 1, condition.Bad: 2}[condition.Of(s).Level])
		}}}
}

// byVerdict returns the metric of the counters by verdict on certificates.
func byVerdict() []Metric {
	return []Metric{{Name: "tls_bad_total", Label: "verdict",
		Help: "Exchanges with servers whose certificate is bad, by verdict", each: func(s *snap, f emit) {
			for i, verdict := range state.TLSVerdicts {
				f(verdict, float64(s.Count(state.CountTLSBad+state.Counter(i))))
			}
		}}}
}

// counterRow describes a counter. The name is that of the counter and the scale 1 unless it says otherwise.
type counterRow struct {
	help, unit, name string
	scale            float64
}

var counterRows = [state.NumCounters]counterRow{
	state.CountLinks:          {help: "Links parsed that are URLs of http or https"},
	state.CountLinksInvalid:   {help: "Links that are not URLs"},
	state.CountLinksScheme:    {help: "Links with a scheme other than http and https"},
	state.CountLinksTooLong:   {help: "Links over the length limit"},
	state.CountLinksScope:     {help: "Links outside the scope"},
	state.CountLinksDepth:     {help: "Links beyond the depth limit"},
	state.CountLinksFiltered:  {help: "Links that a filter or nofollow dropped"},
	state.CountLinksCached:    {help: "Links found in the RAM cache"},
	state.CountLinksChecked:   {help: "Links sent to URLseen"},
	state.CountEdges:          {help: "Links between PLDs sent to STAR"},
	state.CountSeeds:          {help: "Seed lines read"},
	state.CountSeedsBad:       {help: "Seed lines refused"},
	state.CountAttempts:       {help: "Requests for URLs"},
	state.CountResponses:      {help: "Final responses for URLs", name: "final_responses"},
	state.CountPages:          {help: "Responses with status 200 and an HTML type"},
	state.CountRedirects:      {help: "Redirects with a target"},
	state.CountBytesWire:      {help: "Bytes received in final responses for URLs", unit: "bytes"},
	state.CountBytesBody:      {help: "Bytes of the decoded bodies of final responses", unit: "bytes"},
	state.CountRobotsAttempts: {help: "Requests for robots.txt and tdmrep.json"},
	state.CountTDMRep:         {help: "Hosts whose tdmrep.json was requested, each time (--tdmrep)", name: "tdmrep"},
	state.CountRobotsBytes:    {help: "Bytes received for robots.txt", unit: "bytes"},
	state.CountLookups:        {help: "DNS lookups"},
	state.CountLookupFailures: {help: "DNS lookups without an address"},
	state.CountRetries:        {help: "Failed requests that are tried again"},
	state.CountDeferrals:      {help: "URLs deferred, each time counted"},
	state.CountTruncated:      {help: "Bodies cut at a limit or by the server"},
	state.CountCheckpoints:    {help: "Durable checkpoints"},
	state.CountFetchMillis: {help: "Time of exchanges with a final response", unit: "seconds",
		name: "fetch_seconds", scale: 1e-3},
	state.CountSeedPages:         {help: "Seeds that led to a page"},
	state.CountLinksDropped:      {help: "Links beyond the limit of one page"},
	state.CountLinksPort:         {help: "Links to ports that are not allowed"},
	state.CountLinksDraining:     {help: "Links dropped because the crawl drains"},
	state.CountDecodeCut:         {help: "Bodies whose decoding stopped early"},
	state.CountUnconfirmed:       {help: "Failed requests and lookups that do not count: our network may be the cause"},
	state.CountLinksNoFollow:     {help: "Links that ask not to be followed, part of links_filtered_total"},
	state.CountLinksExtension:    {help: "Links to files whose extension is not that of a page"},
	state.CountLinksPathDepth:    {help: "Links with too many path segments"},
	state.CountLinksRepeated:     {help: "Links whose path repeats a segment too often"},
	state.CountLinksParams:       {help: "Links with too many parameters"},
	state.CountLinksRules:        {help: "Links that the scope rules exclude"},
	state.CountLinksBlocked:      {help: "Links to hosts that the blacklist names"},
	state.CountURLsRewritten:     {help: "Links rewritten by URL rules"},
	state.CountSitemaps:          {help: "Sitemaps read"},
	state.CountSitemapURLs:       {help: "URLs found in sitemaps"},
	state.CountSitemapFaults:     {help: "Sitemaps not read to their end, and URLs not allowed in them"},
	state.CountNoIndex:           {help: "Pages that ask not to be indexed"},
	state.CountBodiesRefused:     {help: "Bodies not read because of their type"},
	state.CountSniffed:           {help: "Pages with another declared type"},
	state.CountRefusals:          {help: "Responses that refuse the crawler"},
	state.CountPayments:          {help: "Responses that ask for payment or a licence"},
	state.CountChallenges:        {help: "Challenge pages, part of refusals_total"},
	state.CountHostRests:         {help: "Long back-offs of hosts", name: "host_backoffs"},
	state.CountHostsGivenUp:      {help: "Hosts given up"},
	state.CountLinksRedirects:    {help: "Redirects beyond the limit of consecutive redirects"},
	state.CountInternalErrors:    {help: "Contained panics of this program on a response"},
	state.CountRobotsStored:      {help: "Requests for robots.txt with records in WARC files"},
	state.CountDNSStored:         {help: "DNS answers in WARC files"},
	state.CountBytesSent:         {help: "Bytes sent for URLs", unit: "bytes"},
	state.CountBytesPages:        {help: "Bytes of the decoded bodies of pages", unit: "bytes"},
	state.CountCompressed:        {help: "Responses with a compressed body", name: "compressed_responses"},
	state.CountBytesCompressed:   {help: "Bytes of compressed bodies as received", unit: "bytes"},
	state.CountBytesUncompressed: {help: "Bytes of compressed bodies after decoding", unit: "bytes"},
	state.CountConnections:       {help: "Connections opened"},
	state.CountConnectionsReused: {help: "Exchanges on a kept connection"},
	state.CountRobotsBytesSent:   {help: "Bytes sent for robots.txt", unit: "bytes"},
	state.CountRobotsFailed:      {help: "Requests for robots.txt without a response"},
	state.CountURLsPlaced:        {help: "URLs that STAR placed in queues of BEAST"},
	state.CountURLsOver:          {help: "URLs that STAR put into QF because they were over budget"},
	state.CountURLsScanned:       {help: "URLs that returned from QF to STAR"},
	state.CountURLsReplaced: {
		help: "URLs that returned from BEAST to STAR after a change of the budget function"},
	state.CountURLsReleased: {help: "URLs that BEAST released to RobotsCache"},
	state.CountURLsUnknown:  {help: "URLs that moved from RobotsCache to QR to wait for robots.txt or addresses"},
	state.CountURLsAnswered: {help: "URLs that returned from QR to RobotsCache"},
	state.CountURLsAllowed:  {help: "URLs that RobotsCache allowed"},
	state.CountURLsAdmitted: {help: "URLs admitted into RAM"},
	state.CountURLsDue:      {help: "Deferred URLs that returned to RobotsCache"},
	state.CountURLsDenied:   {help: "URLs that RobotsCache refused or set aside"},
	state.CountSpooled:      {help: "Bodies too large for RAM that were stored from a file"},
	state.CountBytesSpooled: {help: "Bytes, as received, of bodies that were stored from a file", unit: "bytes"},
	state.CountHTTP2:        {help: "Responses for URLs over HTTP/2", name: "http2_responses"},
	state.CountDuplicates: {help: "Responses whose body was seen before, as far as bodies were compared",
		name: "duplicate_responses"},
	state.CountRevisits:      {help: "Duplicate responses stored as revisit records"},
	state.CountBytesRevisits: {help: "Decoded bytes of the bodies that revisit records leave out", unit: "bytes"},
	state.CountNearCopies:    {help: "Pages whose text nearly repeats a page of their host (--near-duplicates)"},
	state.CountNearNotes:     {help: "Near-duplicates stored without their body (--near-duplicates)"},
	state.CountBytesNear: {help: "Decoded bytes of the bodies that near-duplicates leave out (--near-duplicates)",
		unit: "bytes"},
	state.CountContentLarge: {
		help: "Responses too large to wait for the comparison of their body, stored without it"},
	state.CountNoArchive:    {help: "Responses that ask archives not to keep them"},
	state.CountHeadsStored:  {help: "Responses stored without their body, because they ask for it"},
	state.CountOmitted:      {help: "Responses not stored, because they ask for it"},
	state.CountHookAnswers:  {help: "Pages that the hook answered for"},
	state.CountHookTimeouts: {help: "Pages for which the hook gave no answer in time"},
	state.CountHookFailures: {help: "Pages for which the hook ended or broke the protocol"},
	state.CountHookRefused:  {help: "Answers of the hook over a limit, treated as none"},
	state.CountHookUnasked:  {help: "Pages that no process of the hook was free for"},
	state.CountHookRestarts: {help: "Processes of the hook that were replaced"},
	state.CountHookMicros: {help: "Time that pages waited for the hook", unit: "seconds",
		name: "hook_wait_seconds", scale: 1e-6},
	state.CountHookDropped:    {help: "Responses not stored because the hook said so"},
	state.CountHookUnfollowed: {help: "Pages whose own links were not followed because the hook said so"},
	state.CountHookLinks:      {help: "Links that the hook added"},
	state.CountLinksHook:      {help: "Links of pages that the hook rejected"},
	state.CountRepeated:       {help: "Pages nearly like an earlier page of the host (--budget traps)"},
	state.CountTrapURLs: {
		help: "Unique URLs of hosts that may use only a part of their PLD's budget (--budget traps)"},
	state.CountScheduled:     {help: "Next visits of URLs that were scheduled (--recrawl)"},
	state.CountVisits:        {help: "Responses for URLs that were visited before (--recrawl)"},
	state.CountUnchanged:     {help: "Later visits that found an unchanged page (--recrawl)"},
	state.CountNotModified:   {help: "Later visits answered with status 304 (--recrawl)"},
	state.CountGone:          {help: "URLs that are no longer visited because visits found no page (--recrawl)"},
	state.CountEnqueued:      {help: "URLs that the operator has enqueued (ctl enqueue)"},
	state.CountEnqueuedMoved: {help: "URLs enqueued at another node that waited when their slots moved here"},
	state.CountWatched:       {help: "URLs of --watch whose turn has come"},
	state.CountWatchMet:      {help: "URLs of --watch fetched by their deadlines"},
	state.CountWatchMissed:   {help: "URLs of --watch not fetched by their deadlines, or refused"},
	state.CountRenderWanted:  {help: "Pages that a rule of --render-rules selects"},
	state.CountRendered:      {help: "Pages that the browser rendered"},
	state.CountRenderedCut: {
		help: "Rendered pages cut at a limit (time, requests, bytes, size), or that lack an answer of another node"},
	state.CountRenderedStored: {help: "Rendered pages in WARC files"},
	state.CountRenderFailed:   {help: "Pages stored without rendering because the browser failed or was unavailable"},
	state.CountRenderSkipped: {
		help: "Pages stored without rendering because they are too large or the queue was full"},
	state.CountUsageMarked:    {help: "Responses stored although their site refuses a use that --usage marks"},
	state.CountUsageDropped:   {help: "Responses not stored because their site refuses a use (--usage)"},
	state.CountRenderRequests: {help: "Requests made for rendered pages, without those for robots.txt"},
	state.CountRenderCached:   {help: "Requests of rendered pages answered from RAM"},
	state.CountRenderRefused:  {help: "Requests of rendered pages that the crawl refused to make"},
	state.CountRenderBytes:    {help: "Bytes received for rendered pages", unit: "bytes"},
	state.CountRenderLinks:    {help: "Links found in rendered pages, including those of the original page"},
	state.CountRenderLost:     {help: "Connections to the browser that ended"},
	state.CountRenderAnswers:  {help: "Answers to requests of rendered pages in WARC files"},
	state.CountRenderAsked:    {help: "Requests of rendered pages that the nodes of their hosts made and answered"},
	state.CountRenderUnanswered: {
		help: "Requests of rendered pages that failed because the node of the host did not answer"},
	state.CountRenderParts: {
		help: "Images, style sheets, fonts and scripts queued for rendered pages, new or known"},
	state.CountRenderPartsCut: {
		help: "Images, style sheets and fonts of rendered pages beyond --render-limits resources"},
	state.CountLinksWalk:      {help: "Links kept for the random walk, which follows some of them"},
	state.CountLinksSent:      {help: "Links, and walkers of a random walk, sent to the nodes that own them"},
	state.CountLinksTaken:     {help: "Links, and walkers of a random walk, received from other nodes"},
	state.CountEdgesSent:      {help: "PLD-PLD edges sent to the nodes that own their second PLD"},
	state.CountEdgesTaken:     {help: "PLD-PLD edges received from other nodes"},
	state.CountSeedsElsewhere: {help: "Seeds that other nodes own"},
	state.CountPagesLent:      {help: "Pages of --max-pages that other nodes may fetch instead of this one"},
	state.CountPagesBorrowed:  {help: "Pages of --max-pages that this node may fetch instead of others"},
	state.CountLinksAbandoned: {
		help: "Links sent that were dropped because their owner was abandoned (--give-up-node)"},
	state.CountEdgesAbandoned: {
		help: "PLD-PLD edges sent that were dropped because the owner of their second PLD was given up"},
	state.CountURLsSized:     {help: "Unique URLs whose sizes url_bytes_total and record_bytes_total count"},
	state.CountURLBytes:      {help: "Bytes of unique URLs without http:// or https://", unit: "bytes"},
	state.CountRecordBytes:   {help: "Bytes of the records of unique URLs", unit: "bytes"},
	state.CountLinksForeign:  {help: "Links found on other sites to URLs whose requests have secrets (--sites)"},
	state.CountSignatureAsks: {help: "Responses that refuse a request and ask for a signature"},
	state.CountSignatureUnable: {
		help: "Responses that ask for a signature that the crawl cannot make, part of signature_challenges_total"},
	state.CountSignatureRefused: {
		help: "Responses that refuse a request with the signature that their site had asked for"},
	state.CountLinksDuplicate: {help: "Links not followed because the body of their page was seen before"},
}

// byName returns the function each of a metric whose values a map holds.
func byName(m func(s *snap) map[string]int64, kept func(name string) bool) func(*snap, emit) {
	return func(s *snap, f emit) {
		for name, n := range m(s) {
			if kept(name) {
				f(name, float64(n))
			}
		}
	}
}

// holds reports whether URLs with a reason are held, not refused: the operator's flags may change.
func holds(reason string) bool {
	return reason == state.ReasonForbiddenAddress.String() || reason == state.ReasonForbiddenPort.String()
}

func every(string) bool { return true }

func refused(s *snap) map[string]int64 { return s.Refused }

// byLabel returns the other metrics with a label.
func byLabel() []Metric {
	return []Metric{
		{Name: "urls", Label: "place", Kind: Gauge, Help: "URLs by place", each: func(s *snap, f emit) {
			for p, n := range s.Places {
				f(state.Place(p).String(), float64(n))
			}
		}},
		{Name: "deferred_urls", Label: "reason", Kind: Gauge, Help: "Deferred URLs by reason",
			each: byName(func(s *snap) map[string]int64 { return s.Deferred }, every)},
		{Name: "held_urls", Label: "reason", Kind: Gauge, Help: "URLs that the flags forbid by reason",
			each: byName(refused, holds)},
		{Name: "refused_total", Label: "reason", Help: "URLs refused by reason",
			each: byName(refused, func(name string) bool { return !holds(name) })},
		{Name: "attempts_failed_total", Label: "reason", Help: "Requests for URLs without a final response by reason",
			each: byName(func(s *snap) map[string]int64 { return s.Failed }, every)},
		{Name: "responses_total", Label: "code",
			Help: "Final responses for URLs by status code, 0 for invalid ones",
			each: func(s *snap, f emit) {
				for code, n := range s.Codes {
					if n != 0 {
						f(strconv.Itoa(code), float64(n))
					}
				}
			}},
		{Name: "signed_requests_total", Label: "why",
			Help: "Requests with a signature: always, or as their site asked by a challenge (--sign)",
			each: func(s *snap, f emit) {
				f("always", float64(s.Count(state.CountSigned)))
				f("challenge", float64(s.Count(state.CountSignedAsked)))
			}},
		{Name: "slots_sampled_total", Label: "use",
			Help: "Connection slots by use, summed over the samples of this run",
			each: func(s *snap, f emit) {
				for _, u := range snapshot.SlotUses() {
					f(u.String(), float64(s.Slots.Use[u]))
				}
			}},
		{Name: "pld_responses_below", Label: "share", Kind: Gauge,
			Help: "This share of the visited PLDs has fewer responses than this power of two, estimated",
			each: func(s *snap, f emit) {
				for i, share := range snapshot.PLDShares {
					f(strconv.FormatFloat(share, 'g', -1, 64), float64(s.PLDPages[i]))
				}
			}},
		{Name: "ram_planned_bytes", Unit: "bytes", Kind: Gauge, Label: "part", Help: "RAM by structure, by the plan",
			each: parts(func(s *snap) *snapshot.Space { return &s.RAM })},
		{Name: "disk_bytes", Unit: "bytes", Kind: Gauge, Label: "part", Help: "Disk space by structure",
			each: parts(func(s *snap) *snapshot.Space { return &s.Disk })},
	}
}

// parts returns the function each of a metric by part of a space.
func parts(of func(s *snap) *snapshot.Space) func(*snap, emit) {
	return func(s *snap, f emit) {
		for _, p := range of(s).Parts {
			f(p.Name, float64(p.Bytes))
		}
	}
}

// histograms returns the histograms.
func histograms() (list []Metric) {
	for kind, row := range [snapshot.NumTimes][2]string{
		snapshot.TimeLookup:     {"lookup_seconds", "DNS lookups that the cache did not answer"},
		snapshot.TimeConnect:    {"connect_seconds", "TCP connects"},
		snapshot.TimeTLS:        {"tls_handshake_seconds", "TLS handshakes"},
		snapshot.TimeFirstByte:  {"first_byte_seconds", "From the request to the first byte of the response"},
		snapshot.TimeExchange:   {"exchange_seconds", "Exchanges with a response"},
		snapshot.TimePass:       {"pass_seconds", "Passes of the drums"},
		snapshot.TimeCheckpoint: {"checkpoint_seconds", "Checkpoints"},
		snapshot.TimePause:      {"checkpoint_pause_seconds", "Pauses of all transactions for checkpoints"},
		snapshot.TimeStall:      {"transaction_stall_seconds", "Transactions of a millisecond or more"},
	} {
		list = append(list, Metric{Name: row[0], Help: row[1] + ", of this run", Unit: "seconds", Kind: Histogram,
			times: snapshot.Time(kind)})
	}
	return list
}
