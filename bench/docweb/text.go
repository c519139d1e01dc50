package docweb

import (
	"fmt"
	"strings"
)

// words are directories, slugs and text. Earlier ones are more frequent in text. None is a directory of
// another kind (archive, go, internal).
var words = strings.Fields(`
the value of a function is returned when option argument object list file default call type name method class
with string error module set index key each read write table server request memory buffer number section
example result client process thread path user field query node value data message event format version order
size lock queue block page stream input output state transaction replica worker socket token header body
cursor schema column row handler callback iterator generator context scope binding closure module package
import export symbol literal operator expression statement declaration definition parameter template macro
pointer reference address segment offset checksum digest signature certificate cipher nonce session cookie
proxy gateway router bridge interface protocol packet frame channel signal timer clock interval timeout
deadline retry backoff limit quota budget priority schedule dispatch batch bulk merge split partition shard
bucket hash tree heap stack graph edge vertex matrix vector tensor kernel driver device volume mount snapshot
backup restore layout migration upgrade rollback commit branch tag release build compile link debug profile
trace log metric counter gauge histogram alert monitor health probe balance failover recovery consensus leader
follower election quorum lease epoch sequence compression encoding decoding charset locale unicode escape
quote delimiter separator prefix suffix pattern match search filter sort group aggregate window join union
intersect distinct constraint trigger view procedure grammar parser lexer lexeme syntax semantic analysis
optimizer planner executor evaluator interpreter runtime allocator collector garbage arena pool cache eviction
prefetch pipeline stage conduit sink source adapter wrapper decorator factory builder visitor observer
listener publisher subscriber broker topic subscription delivery acknowledgement idempotent durable volatile
atomic isolated consistent available tolerant distributed concurrent parallel sequential synchronous
asynchronous blocking nonblocking lazy eager strict dynamic static abstract concrete virtual inline constant
mutable immutable public private protected deprecated experimental stable obsolete reserved
`)

// word draws a word; the frequencies fall as those of a language.
func (r *rng) word() string {
	u := r.unit()
	return words[int(float64(len(words))*u*u*u)]
}

// Numbers of phrases that all text has in common, and of words in one. Texts that repeat idioms compress,
// with their markup, to between a third and a fourth.
const (
	phrases     = 200
	phraseLeast = 4
	phraseMost  = 10
)

// phrase appends one of the phrases; the first are the most frequent.
func (r *rng) phrase(b []byte) []byte {
	u := r.unit()
	own := newRng(uint64(phrases * u * u))
	for i := range phraseLeast + own.below(phraseMost-phraseLeast+1) {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, own.word()...)
	}
	return b
}

// sentence appends a sentence of some phrases and words.
func (r *rng) sentence(b []byte, parts int) []byte {
	start := len(b)
	for i := range parts {
		if i > 0 {
			b = append(b, ' ')
		}
		if r.below(4) == 0 {
			b = append(b, r.word()...)
		} else {
			b = r.phrase(b)
		}
	}
	b[start] -= 'a' - 'A'
	return append(b, '.')
}

func (r *rng) paragraph(b []byte, sentences int) []byte {
	b = append(b, "<p>"...)
	for i := range sentences {
		if i > 0 {
			b = append(b, ' ')
		}
		b = r.sentence(b, 2+r.below(4))
		if r.below(4) == 0 {
			b = fmt.Appendf(b, ` See <code class="xref"><span class="pre">%s.%s()</span></code>.`, r.word(), r.word())
		}
	}
	return append(b, "</p>\n"...)
}

// block makes some HTML of about n bytes: headings, paragraphs, definitions, code and tables, as tools for
// documentation write them. Its links lead to fragments of the page.
func (r *rng) block(n int) []byte {
	var b []byte
	for len(b) < n-n/8 {
		id := fmt.Sprintf("%s-%s-%d", r.word(), r.word(), r.below(1000))
		switch r.below(8) {
		case 0:
			b = fmt.Appendf(b, "<section id=\"%s\">\n<h2>%s %s"+
				"<a class=\"headerlink\" href=\"#%s\" title=\"Link to this heading\">#</a></h2>\n",
				id, r.word(), r.word(), id)
			b = r.paragraph(b, 2)
			b = append(b, "</section>\n"...)
		case 1, 2:
			b = fmt.Appendf(b, "<dl class=\"function\">\n<dt class=\"sig\" id=\"%s\"><span class=\"name\">%s_%s</span>"+
				"(<em>%s</em>, <em>%s=None</em>)<a class=\"headerlink\" href=\"#%s\">#</a></dt>\n<dd>", id,
				r.word(), r.word(), r.word(), r.word(), id)
			b = r.paragraph(b, 1+r.below(3))
			b = append(b, "</dd></dl>\n"...)
		case 3:
			b = append(b, "<div class=\"highlight\"><pre>\n"...)
			for range 2 + r.below(8) {
				b = fmt.Appendf(b,
					"<span class=\"gp\">&gt;&gt;&gt; </span><span class=\"n\">%s</span> <span class=\"o\">=</span> "+
						"<span class=\"n\">%s</span>(<span class=\"mi\">%d</span>, &quot;%s&quot;)\n",
					r.word(), r.word(), r.below(10000), r.word())
			}
			b = append(b, "</pre></div>\n"...)
		case 4:
			b = append(b, "<table class=\"docutils\"><tbody>\n"...)
			for range 2 + r.below(5) {
				b = fmt.Appendf(b, "<tr class=\"row\"><td><p>%s</p></td><td><p>", r.word())
				b = append(r.sentence(b, 1+r.below(2)), "</p></td></tr>\n"...)
			}
			b = append(b, "</tbody></table>\n"...)
		default:
			b = r.paragraph(b, 2+r.below(4))
		}
	}
	return b
}
