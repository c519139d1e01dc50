package budget

import (
	"encoding/binary"
	"math"
	"math/bits"
	mathrand "math/rand/v2"
	"strconv"

	"drumbeat/star"
)

// budgetWeb is the web of Beast.Measure: PLDs with budgets, and an endless stream of unique URLs as the
// links of its pages. PLDs are numbered from 0 by rank. A record is the PLD's number (4 bytes,
// little-endian) and the text of a URL. It is for one goroutine. Its own cost is measured as the generator.
type budgetWeb struct {
	budgets  []uint32 // B of each PLD, pages per queue
	sum      int64    // sum of the budgets: the pages of a full queue, E[B]·V
	degrees  []uint32 // in-degrees that give these budgets
	spammers int      // the last PLDs, with the smallest budget and their own share of the links
	arrivals alias
	rng      *mathrand.Rand

	urlBytes int // b
	made     int64
	run      int // URLs still to be made with the PLD and directory of prefix
	pld      uint32
	prefix   []byte
}

// The links of a page come in runs of meanRun on average to the same directory of one site. One PLD in 100
// is a spammer.
const (
	meanRun       = 3
	spammerShare  = 100
	leastURLBytes = 64
)

func newBudgetWeb(b *Beast) *budgetWeb {
	w := &budgetWeb{urlBytes: b.URLBytes, rng: mathrand.New(mathrand.NewPCG(b.Seed, 7)),
		spammers: max(1, b.PLDs/spammerShare)}
	w.budgets, w.degrees = paperBudgets(b.PLDs, b.Budget)
	for _, x := range w.budgets {
		w.sum += int64(x)
	}
	// Spammers receive the share Spam of the links by a power law. The other links go to all PLDs in
	// proportion to their budgets.
	weights, harmonic := make([]float64, b.PLDs), 0.0
	for i := range w.spammers {
		harmonic += 1 / float64(i+1)
	}
	for i := range weights {
		weights[i] = (1 - b.Spam) * float64(w.budgets[i]) / float64(w.sum)
		if s := i - (b.PLDs - w.spammers); s >= 0 {
			weights[i] += b.Spam / float64(s+1) / harmonic
		}
	}
	w.arrivals = newAlias(weights)
	return w
}

// paperBudgets computes the paper's F for V PLDs whose in-degrees follow a power law. The budgets of the K
// largest fall linearly by rank from the top to B0; all others have B0. The code is independent of package
// star, to check it.
func paperBudgets(plds, b0 int) (budgets, degrees []uint32) {
	k := min(10_000, plds/100)
	top := max(b0, min(10_000, plds*b0/100))
	budgets, degrees = make([]uint32, plds), make([]uint32, plds)
	for i := range budgets {
		budgets[i], degrees[i] = uint32(b0), 1
		if i < k {
			budgets[i] = uint32(math.Round(float64(b0) + float64((top-b0)*(k-i))/float64(k)))
			degrees[i] = uint32(1 + k - i + plds/(4*(i+1)))
		}
	}
	return budgets, degrees
}

// pldKey returns the key of a PLD. It is a bijection (with the finalizer of splitmix64) that spreads the
// keys evenly.
func pldKey(n uint32) uint64 { return mix((uint64(n) + 1) * 0x9e3779b97f4a7c15) }

// mix is a bijection of 64 bits with results that look random.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// recordPLD returns the number of a record's PLD.
func recordPLD(rec []byte) uint32 { return binary.LittleEndian.Uint32(rec) }

// append appends the record of a new URL.
func (w *budgetWeb) append(dst []byte) []byte {
	if w.run == 0 {
		w.pld = w.arrivals.draw(w.rng.Uint64())
		w.newRun()
	}
	w.run--
	return w.finish(dst)
}

// appendOf appends the record of a new URL of one PLD.
func (w *budgetWeb) appendOf(dst []byte, pld uint32) []byte {
	w.pld = pld
	w.newRun()
	w.run = 0
	return w.finish(dst)
}

// newRun makes the prefix of the next URLs: PLD number, site and directories.
func (w *budgetWeb) newRun() {
	r := w.rng.Uint64()
	w.run = 1
	for ; r&0xff < 256*(meanRun-1)/meanRun; w.run++ {
		r = bits.RotateLeft64(r, 9) * 0x9e3779b97f4a7c15
	}
	b := binary.LittleEndian.AppendUint32(w.prefix[:0], w.pld)
	b = append(b, "http://www."...)
	b = appendName(b, pldKey(w.pld))
	b = append(b, ".com/"...)
	// The last part of a URL has 27 bytes. The directories take the rest of the mean, times 0.5 to 1.5.
	for end := len(b) + (w.urlBytes-len(b)-27)*int(64+w.rng.Uint32N(128))/128; len(b) < end; {
		b = append(b, pathWords[w.rng.Uint32N(uint32(len(pathWords)))]...)
		b = append(b, '/')
	}
	w.prefix = b
}

// finish appends the prefix and a unique name.
func (w *budgetWeb) finish(dst []byte) []byte {
	dst = append(dst, w.prefix...)
	dst = append(dst, pathWords[w.made%int64(len(pathWords))]...)
	dst = append(dst, "-page-"...)
	dst = strconv.AppendInt(dst, w.made, 10)
	w.made++
	return append(dst, ".html"...)
}

// appendName appends a pronounceable name of five to eight syllables.
func appendName(dst []byte, r uint64) []byte {
	for n := 5 + r%4; n > 0; n-- {
		r /= 5
		dst = append(dst, "bdfgklmnprstvz"[r%14], "aeiou"[r/14%5])
		r /= 70
	}
	return dst
}

// pathWords are directory names and the beginnings of file names.
var pathWords = [...]string{
	"about", "archive", "articles", "blog", "books", "browse", "business", "cars", "catalog", "category",
	"city", "content", "detail", "download", "events", "family", "forum", "gallery", "games", "guide", "health", "help",
	"history", "home", "images", "index", "item", "jobs", "library", "local", "mail", "market", "media", "members",
	"movies", "music", "news", "offers", "people", "photos", "products", "profile", "questions", "reviews", "science",
	"search", "services", "shop", "show", "software", "sports", "static", "stories", "support", "tags", "topics",
	"tours", "travel", "users", "video", "viewtopic", "weather", "wiki", "world",
}

// alias draws numbers with given weights in constant time, by Walker's method.
type alias struct {
	keep  []uint32 // random 32-bit numbers below it keep the number drawn, others take other
	other []uint32
}

func newAlias(weights []float64) alias {
	n, sum := len(weights), 0.0
	for _, w := range weights {
		sum += w
	}
	a := alias{keep: make([]uint32, n), other: make([]uint32, n)}
	scaled := make([]float64, n)
	var small, large []uint32
	for i, w := range weights {
		a.keep[i], a.other[i] = math.MaxUint32, uint32(i)
		if scaled[i] = w * float64(n) / sum; scaled[i] < 1 {
			small = append(small, uint32(i))
		} else {
			large = append(large, uint32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		a.keep[s], a.other[s] = uint32(scaled[s]*math.MaxUint32), l
		if scaled[l] -= 1 - scaled[s]; scaled[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return a
}

// draw returns a number for a uniformly random r.
func (a *alias) draw(r uint64) uint32 {
	i, _ := bits.Mul64(r<<32, uint64(len(a.keep)))
	if uint32(r>>32) <= a.keep[i] {
		return uint32(i)
	}
	return a.other[i]
}

// linkCount generates the number of links of each page: whole numbers with mean L.
type linkCount struct{ perPage, rest float64 }

func (l *linkCount) next() int {
	l.rest += l.perPage
	n := int(l.rest)
	l.rest -= float64(n)
	return n
}

// starBudgets are the options that make package star use paperBudgets.
func starBudgets(b0 int) star.Budgets {
	return star.Budgets{Default: uint32(b0), QueuePages: star.Unscaled}
}
