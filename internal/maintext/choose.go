package maintext

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"golang.org/x/net/html/atom"
)

// feature is a property of a block.
type feature int

// The features. Counts are taken as log(1+n).
const (
	bias feature = iota
	// The block itself.
	words
	density  // share of the words that are in links
	stops    // punctuation marks a word
	sentence // it has such marks
	digits   // share of the words that begin with a digit
	endsSentence
	endsColon
	copyright
	again     // the same text precedes it
	nextWords // words of the next block
	// Its element.
	paragraph
	item
	heading // h2, h3
	subheading
	option
	// The innermost element around it with more text, and the third of these.
	aroundWords
	aroundDensity
	aroundShare // of the words of the page
	farDensity
	farProse
	// The group of similar elements, such as posts or products, that it is in.
	groupSize
	groupWords
	groupDensity
	// The element with the most prose below it.
	inBest
	nearBest // within the parent of that element
	beforeBest
	afterBest
	// The page.
	pageWords
	pageDensity
	pageProse
	pageProseWords
	pageHasMain
	pageHasArticle
	position // share of the page's words that precede the block
	numFeatures
)

// weights are those of a logistic regression whether a block is main text, of the blocks of 296 pages of seven kinds
// (a sample of WCXB, see bench/extract). Of these pages, weights found with one half judge the other as well as it
// judges itself, to 0.02 of F1. Features that did not help the other half are not here, nor are those that would
// leave out code, tables or definitions.
var weights = [numFeatures]float64{
	bias: -0.42, words: 0.12, density: -0.45, stops: -0.47, sentence: 0.27, digits: -0.97, endsSentence: 0.35,
	endsColon: 0.37, copyright: -2.48, again: -1.45, nextWords: 0.09, paragraph: 0.86, item: 0.59, heading: 1.16,
	subheading: 0.98, option: -0.79, aroundWords: -0.10, aroundDensity: -0.55, aroundShare: 1.12, farDensity: -0.44,
	farProse: 0.65, groupSize: 0.17, groupWords: 0.04, groupDensity: 0.52, inBest: 0.33, nearBest: 0.37,
	beforeBest: -0.21, afterBest: -0.30, pageWords: 0.18, pageDensity: 1.18, pageProse: 1.06, pageProseWords: -0.37,
	pageHasMain: -1.43, pageHasArticle: -0.79, position: -1.16,
}

// markWeights are the weights of the hints around a block.
var markWeights = map[marks]float64{
	markNav: -0.88, markFooter: -0.92, markSide: -0.40, markCookie: -3.03, markShare: -2.80, markRelated: -0.35,
	markComment: -0.63, markReview: -1.30, markForm: -0.38, markAction: -0.34, markPopup: -1.47, markUnseen: -0.64,
	markMain: 1.78, markArticle: 1.10, markForum: 0.27, markCard: 0.28, markFigure: 0.26, markContents: 0.51,
}

// elementFeatures are the features of an element's name.
var elementFeatures = map[atom.Atom]feature{atom.P: paragraph, atom.Li: item, atom.H2: heading, atom.H3: heading,
	atom.H4: subheading, atom.H5: subheading, atom.H6: subheading, atom.Option: option}

// values are those of the features.
type values [numFeatures]float64

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func logOf(n int32) float64 { return math.Log1p(float64(n)) }

// page returns the features of the page.
func (p *passage) page() (v values) {
	total := &p.of[0]
	v[bias] = 1
	v[pageWords], v[pageDensity] = logOf(total.words), total.density()
	v[pageProse], v[pageProseWords] = share(total.prose, total.words), logOf(total.prose)
	for i := range p.nodes {
		if p.nodes[i].marks&markMain != 0 {
			v[pageHasMain] = 1
		}
		if p.nodes[i].name == atom.Article {
			v[pageHasArticle] = 1
		}
	}
	return v
}

// apart are the hints of elements whose prose does not make the elements around them the best.
const apart = markNav | markFooter | markSide | markCookie | markPopup | markComment | markRelated

// best returns the element with the most prose near below it; 0 if there is no prose. Prose counts for the three
// elements around its own, less for the outer ones, as in Readability.
func (p *passage) best() int32 {
	prose := make([]float64, len(p.nodes))
	for i := range p.blocks {
		b := &p.blocks[i]
		if b.title || b.again || !b.prose() || p.of[b.node].marks&apart != 0 {
			continue
		}
		at, n := b.node, float64(b.words)
		for range 3 {
			at = p.nodes[at].parent
			prose[at] += n
			n *= 0.6
		}
	}
	best, most := int32(0), 0.0
	for i, n := range prose {
		if n *= 1 - p.of[i].density(); n > most {
			best, most = int32(i), n
		}
	}
	return best
}

// judge finds how likely each block is main text, and returns the share of it that is in the element with the most
// prose: near 1 on a page with one text, such as an article, and near 0 on a list or the page of a shop.
func (p *passage) judge() (single float64) {
	all, inside := 0.0, 0.0
	p.features(func(b *block, v *values) {
		b.odds, b.inBest = 0, v[inBest] > 0
		for f := range v {
			b.odds += v[f] * weights[f]
		}
		for m := p.of[b.first].marks; m != 0; m &= m - 1 {
			b.odds += markWeights[m&-m]
		}
		n := float64(b.words) * probability(b.odds)
		all += n
		inside += n * v[inBest]
	})
	if all > 0 {
		single = inside / all
	}
	for i := range p.blocks {
		if b := &p.blocks[i]; !b.title && b.words > 0 {
			p.adjust(b, single)
		}
	}
	return single
}

// Changes of the logarithm of the odds that a block is main text. These few numbers are round ones of wide
// ranges in which both halves of the pages, by a hash of their hosts, have a higher F1.
const (
	relatedDoubt = 0.6 // teasers of other pages, on a page with one text
	placeTrust   = 1.0 // inside the element with the most prose, on a page with one text; doubt outside it
	tableTrust   = 1.0 // small tables of data; again inside that element
	codeTrust    = 1.0 // code inside that element
	leastSingle  = 0.8 // the share of the text in that element from which a page has one text
	copyWords    = 20  // words from which a copy of a text is none of the main text
	headingScore = 0.1 // of a heading that belongs to the main text behind it
)

// adjust makes the score of a block of its odds. single is what judge returns.
func (p *passage) adjust(b *block, single float64) {
	if p.isMenu(b) || b.again && b.words >= copyWords {
		b.score = 0
		return
	}
	place := &p.of[b.first]
	if place.related {
		b.odds -= relatedDoubt * single
	}
	if place.data {
		b.odds += tableTrust
	}
	one := max(0, (single-leastSingle)/(1-leastSingle))
	if b.inBest {
		b.odds += placeTrust * one
		if place.data {
			b.odds += tableTrust
		}
		if place.code {
			b.odds += codeTrust
		}
	} else {
		b.odds -= placeTrust * one
	}
	b.score = probability(b.odds)
}

// probability returns that of odds whose logarithm is given.
func probability(odds float64) float64 { return 1 / (1 + math.Exp(-odds)) }

// features calls use for each block with words that is not the title, with its features.
func (p *passage) features(use func(b *block, v *values)) {
	page := p.page()
	best := p.best()
	end, near, nearEnd := p.nodes[best].end, p.nodes[best].parent, p.nodes[p.nodes[best].parent].end
	total, before := p.of[0].words, int32(0)
	var v values
	for i := range p.blocks {
		b := &p.blocks[i]
		if b.title || b.words == 0 {
			continue
		}
		v = page
		p.describe(b, &v)
		if i+1 < len(p.blocks) {
			v[nextWords] = logOf(p.blocks[i+1].words)
		}
		if best != 0 {
			v[inBest] = truth(b.node > best && b.node < end)
			v[nearBest] = truth(b.node > near && b.node < nearEnd)
			v[beforeBest], v[afterBest] = truth(b.node < best), truth(b.node >= end)
		}
		v[position] = share(before, total)
		before += b.words
		use(b, &v)
	}
}

// menuDensity is the share of words in links from which a block in navigation is a menu.
const menuDensity = 0.5

// isMenu tells whether a block is certainly none of the main text, also on a page with little else.
func (p *passage) isMenu(b *block) bool {
	m := p.of[b.first].marks
	return m&markCookie != 0 || m&(markNav|markFooter|markShare) != 0 && b.density() >= menuDensity
}

// describe sets the features of a block and of the elements around it.
func (p *passage) describe(b *block, v *values) {
	text := p.trimmed(b)
	last := text[len(text)-1]
	v[words], v[density], v[digits] = logOf(b.words), b.density(), share(b.digits, b.words)
	v[stops], v[sentence] = share(b.stops, b.words), truth(b.stops > 0)
	v[endsSentence], v[endsColon] = truth(last == '.' || last == '!' || last == '?'), truth(last == ':')
	v[copyright] = truth(bytes.Contains(text, []byte("©")))
	v[again] = truth(b.again)
	if f := elementFeatures[p.nodes[b.node].name]; f != 0 {
		v[f] = 1
	}
	around := &p.of[p.of[b.node].above]
	v[aroundWords], v[aroundDensity] = logOf(around.words), around.density()
	v[aroundShare] = share(around.words, p.of[0].words)
	far := &p.of[p.of[around.above].above]
	v[farDensity], v[farProse] = far.density(), share(far.prose, far.words)
	if g := p.of[b.node].group; g != 0 {
		v[groupSize], v[groupWords], v[groupDensity] = logOf(p.of[g].alike), logOf(p.of[g].alikeIn), p.of[g].density()
	} else {
		v[groupSize] = logOf(1)
	}
}

// The shares of the expected words of main text for which F1 is taken, on a page of many texts and on one of one.
// They count less on a page of few more words than shortPage.
const (
	expectedMany = 0.85
	expectedOne  = 0.45
	shortPage    = 100
)

// leastScore is the score without which no block of a page looks like main text.
const leastScore = 0.35

// choose marks the blocks that are main text: the most likely ones, as many as give the highest F1 that the scores
// let expect. The blocks of a page are right or wrong together, so that fewer are best than if they were
// independent, above all on a page with one text. A heading belongs to the main text behind it. If no block looks
// like main text, choose takes all but the title, and whole is true.
func (p *passage) choose() (whole bool) {
	single := p.judge()
	order := make([]*block, 0, len(p.blocks)) // by score, then as on the page
	expected := 0.0
	for i := range p.blocks {
		if b := &p.blocks[i]; !b.title && b.words > 0 {
			order = append(order, b)
			expected += b.score * float64(b.words)
		}
	}
	slices.SortFunc(order, func(a, b *block) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.from, b.from))
	})
	if len(order) == 0 || order[0].score < leastScore {
		for i := range p.blocks {
			p.blocks[i].content = !p.blocks[i].title
		}
		return true
	}
	less := expectedMany - (expectedMany-expectedOne)*single
	expected *= less + (1-less)*math.Exp(-expected/shortPage)
	best, n := 0.0, 0
	right, all := 0.0, 0.0
	for i, b := range order {
		right += b.score * float64(b.words)
		all += float64(b.words)
		if f1 := 2 * right / (all + expected); f1 > best {
			best, n = f1, i+1
		}
	}
	for _, b := range order[:n] {
		b.content = true
	}
	for i := len(p.blocks) - 2; i >= 0; i-- {
		b := &p.blocks[i]
		if p.blocks[i+1].content && b.score >= headingScore && isHeading(p.nodes[b.node].name) {
			b.content = true
		}
	}
	return false
}

// isHeading tells whether an element is a heading.
func isHeading(name atom.Atom) bool {
	switch name {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return true
	}
	return false
}

// main returns the main text.
func (p *passage) main() (main []byte, whole bool) {
	whole = p.choose()
	n := 0
	for i := range p.blocks {
		if b := &p.blocks[i]; b.content {
			n += b.to - b.from
		}
	}
	main = make([]byte, 0, n)
	for i := range p.blocks {
		if b := &p.blocks[i]; b.content {
			main = append(main, p.lines[b.from:b.to]...)
		}
	}
	return main, whole
}
