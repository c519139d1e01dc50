package polite

import "time"

// Adaptive delays (Options.Adaptive). A host whose answers stay quick and clean is visited sooner, by steps,
// and at its base delay again at the first sign of strain: AIMD, additive increase and multiplicative
// decrease, except that the steps are steps of the delay, and the decrease is a reset.
//
// For a host with the base delay b = τh·B0/Bx, the minimum m = HostDelayMin, the factor F = ResponseFactor,
// the mean answer time a, and k steps taken, 0 <= k <= n = adaptSteps:
//
//	plain delay   d(k) = max(b - (b-m)·k/n, min(F·a, b))
//	quick         an answer within 3/2·a + answerNoise
//	slow          an answer beyond 3·a + answerNoise
//	clean, quick  k becomes k+1, if k < n and d(k+1) >= F·a
//	strain, slow  k becomes 0
//	otherwise     k stays
//	then          a becomes a + (min(t, 3·a + answerNoise) - a)/8 for an answer of time t; the first sets a
//
// The delay is then as without adaptation: the maximum of d(k), the Crawl-delay, F times the last answer, and
// the back-off. So these hold:
//
//   - m <= d(k) <= b. No delay is shorter than HostDelayMin, or than the Crawl-delay and F times the last
//     answer (up to maxAnswerDelay), and none is longer than without Options.Adaptive.
//   - The delay after a sign of strain is at least b: k is 0 before the delay is computed.
//   - Each visit takes at most one step, of (b-m)/n. The way down takes at least n clean answers, which is
//     about n·(b+m)/2 of time.
//   - A slow server gains nothing: a delay below b leaves visits at most 1/(1+F) of the time, by the last
//     answer and by the mean, so an answer that is quick by chance does not take it below F·a.
//   - k and a take 5 bytes in the entry of the host, which has room for them. An adapted host without items
//     keeps its entry until adaptedKept times HostDelay after its last visit, because its next items may come
//     late from disk. Then, or at a restart, it is forgotten and starts at b.
//
// A host with a delay of its own (SetHostDelay, Terms) does not adapt. Servers, PLDs and networks do not either.

// adaptSteps is the number of steps from the base delay to the minimum.
const adaptSteps = 32

// answerNoise is a difference of answer times that says nothing about a server.
const answerNoise = 50 * time.Millisecond

// adaptedKept is the number of HostDelays for which an adapted host without items is remembered.
const adaptedKept = 2

// Sign is what an exchange says about the strain on a host. Only adaptive delays use it.
type Sign uint8

// The signs.
const (
	Unclear Sign = iota // says nothing about the host, such as a fault of ours
	Clean               // a complete and orderly answer
	Strain              // a failure, a refusal, a truncated body, a request to slow down
)

// Adapted are the figures of adaptive delays.
type Adapted struct {
	Hosts  int   // hosts in the table with less than their base delay
	Steps  int64 // steps down
	Resets int64 // hosts that went back to their base delay
}

// Adapted returns the figures since New.
func (s *Scheduler) Adapted() Adapted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hosts.adapted
}

// Pace describes the delay of a host.
type Pace struct {
	Delay  time.Duration // after the last exchange
	Steps  int           // taken, of AllSteps; 0: not adapted
	Answer time.Duration // mean answer time; 0: unknown, or delays are not adaptive
}

// AllSteps is the number of steps from the base delay to Options.HostDelayMin.
const AllSteps = adaptSteps

// PaceOf returns the delay of a host. ok is false without Options.Adaptive, and if the host was not visited lately.
func (s *Scheduler) PaceOf(host uint64) (p Pace, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts.table[host]
	if h == nil || !h.visited || !s.opt.Adaptive {
		return Pace{}, false
	}
	return Pace{Delay: h.base, Steps: int(h.steps), Answer: h.meanAnswer()}, true
}

// meanAnswer returns a.
func (h *host) meanAnswer() time.Duration { return time.Duration(h.answer) * time.Microsecond }

// adapt takes a step or resets the host after an exchange.
func (ht *hosts) adapt(h *host, it *Item, r Result) {
	if _, own := ht.own[it.Host]; own || h.terms.fixed() {
		return
	}
	base, mean := ht.opt.plainDelay(it.Budget), h.meanAnswer()
	slow := 3*mean + answerNoise
	switch {
	case r.Sign == Strain, r.Backoff > 0, r.ServerBackoff > 0,
		r.Sign == Clean && h.answer > 0 && r.Elapsed > slow:
		if h.steps > 0 {
			ht.adapted.Resets++
		}
		ht.setSteps(h, 0)
	case r.Sign == Clean && h.answer > 0 && r.Elapsed <= mean*3/2+answerNoise && h.steps < adaptSteps &&
		base > ht.opt.HostDelayMin:
		if float64(ht.opt.stepped(base, h.steps+1)) >= ht.opt.ResponseFactor*float64(mean) {
			ht.adapted.Steps++
			ht.setSteps(h, h.steps+1)
		}
	}
	if r.Sign != Clean {
		return
	}
	if h.answer > 0 {
		mean += (min(r.Elapsed, slow) - mean) / 8
	} else {
		mean = r.Elapsed
	}
	// At least a microsecond, because 0 is unknown, and at most an hour, which fits.
	h.answer = uint32(max(1, min(mean, time.Hour).Microseconds()))
}

// setSteps sets k.
func (ht *hosts) setSteps(h *host, k uint8) {
	if k > 0 && h.steps == 0 {
		ht.adapted.Hosts++
	} else if k == 0 && h.steps > 0 {
		ht.adapted.Hosts--
	}
	h.steps = k
}

// stepped returns b - (b-m)·k/n.
func (o *Options) stepped(base time.Duration, k uint8) time.Duration {
	span, steps := max(0, base-o.HostDelayMin), time.Duration(k)
	return base - span/adaptSteps*steps - span%adaptSteps*steps/adaptSteps // span times steps could overflow
}

// adaptedTo returns d(k) for k > 0.
func (o *Options) adaptedTo(base time.Duration, h *host, k uint8) time.Duration {
	least := min(o.ResponseFactor*float64(h.meanAnswer()), float64(base))
	return max(o.stepped(base, k), time.Duration(least))
}

// ramp returns the time that a host probably needs for n further visits. The URLs of a host with many must
// return from disk at the pace that the host will have then, not at today's: otherwise it would run out of URLs
// in RAM and never be visited sooner. An item that was never deferred assumes clean and quick answers all the
// way. Each earlier deferral doubles the least delay that it assumes, so a host that does not keep up with that
// costs at most log2(b/m) further deferrals of a URL. spacing is the time between visits today.
func (ht *hosts) ramp(h *host, it *Item, n float64, spacing int64) float64 {
	if _, own := ht.own[it.Host]; own || !ht.opt.Adaptive || it.Terms.fixed() {
		return n * float64(spacing)
	}
	base := ht.opt.plainDelay(it.Budget)
	least := max(ht.opt.HostDelayMin, base>>6, time.Millisecond) << min(it.Waits, 8)
	least = min(least, time.Duration(spacing))
	crawlDelay := max(it.CrawlDelay, h.crawlDelay)
	answer := Result{Elapsed: max(h.usual, h.meanAnswer())}
	total := 0.0
	for k := h.steps; n > 0; k++ {
		visits := min(n, 1)
		if k >= adaptSteps {
			k, visits = adaptSteps, n
		}
		d := ht.opt.delayAfter(ht.opt.adaptedTo(base, h, k), crawlDelay, answer, it.Terms) + h.usual
		total += visits * float64(max(d, least))
		n -= visits
	}
	return total
}
