package links

// maxText is the room for the longest text and for the bytes that copies of whole words write past its end.
const maxText = 320

// word holds up to 15 letters, and their number in the last byte, so that a copy can move all 16 bytes.
type word [16]byte

const (
	dictionaryBits = 11
	dictionarySize = 1 << dictionaryBits
)

type dictionary [dictionarySize]word

// makeDictionary makes words of one to three syllables; the same seed gives the same words.
func makeDictionary(seed uint64) (d dictionary) {
	const first = "b c d f g h l m n p r s t st tr ch br cl sh v w k"
	const vowel = "a e i o u a e i o ea ou"
	const last = "  n r s t l   m d   ng"
	pick := func(list string, r *uint64) string {
		n := 1
		for i := range len(list) {
			if list[i] == ' ' {
				n++
			}
		}
		*r = mix(*r + 0x9e3779b97f4a7c15)
		want := int(*r % uint64(n))
		for start, i := 0, 0; ; i++ {
			if i < len(list) && list[i] != ' ' {
				continue
			}
			if want == 0 {
				return list[start:i]
			}
			want, start = want-1, i+1
		}
	}
	r := mix(seed ^ 0x646963740a)
	for i := range d {
		var b []byte
		syllables := 1 + int(mix(r+1)%5+2)/3 // 1, 2, 2, 2, 3
		for range syllables {
			next := pick(first, &r) + pick(vowel, &r) + pick(last, &r)
			if len(b)+len(next) > len(d[i])-1 {
				break
			}
			b = append(b, next...)
		}
		copy(d[i][:], b)
		d[i][15] = byte(len(b))
	}
	return d
}

// put copies a word to b[at:] and returns its end.
func put(b []byte, at int, w *word) int {
	*(*word)(b[at:]) = *w
	return at + int(w[15])
}

// text copies a constant string of at most 16 bytes; constant lengths on both sides compile to one or two
// moves.
func text(b []byte, at int, s string) int {
	copy(b[at:at+16], s)
	return at + len(s)
}

// skewed maps bits to a word by the product of two uniform numbers, so some words are common.
func (s *Stream) skewed(bits uint64) *word {
	return &s.words[bits>>dictionaryBits&(dictionarySize-1)*(bits&(dictionarySize-1))>>dictionaryBits]
}

// host holds the common properties of the URLs of one site.
type host struct {
	number   uint64 // in 1 .. 2^classes - 1; 0 means none
	hash     uint64
	template int
	prefix   [96]byte // scheme, name, slash
	length   int
}

// host returns the host of a session: the current page's, or the latest host of the lane, or a new one.
func (s *Stream) host(group uint64) *host {
	class := group % s.classes
	number := 1<<class | group/s.classes&(1<<class-1)
	if h := &s.hosts[s.lane]; h.number == number {
		return h
	}
	h := &s.hosts[group%lanes]
	if group%lanes == uint64(s.lane) {
		h = &s.other // keep the page's host
	}
	if h.number != number {
		h.number = number
		s.fillHost(h)
	}
	return h
}

const letters = "etaoinshrdlcumwfgypbvkjxqz012345" // 32 letters, common ones first

// fillHost makes the name of a host, which contains its number as letters.
func (s *Stream) fillHost(h *host) {
	h.hash = mix(h.number ^ s.opt.Seed<<32 ^ 0x686f7374)
	r := h.hash
	h.template = int(r & 7)
	b, at := h.prefix[:], 0
	if r>>3&7 == 0 {
		at = text(b, at, "http://")
	} else {
		at = text(b, at, "https://")
	}
	if r>>6&3 != 0 {
		at = text(b, at, "www.")
	}
	at = put(b, at, s.skewed(r>>8))
	if r>>30&1 != 0 {
		at = put(b, at, s.skewed(r>>31))
	}
	b[at] = '-'
	at++
	for n := h.number; n > 0; n >>= 5 {
		b[at] = letters[n&31]
		at++
	}
	switch r >> 56 & 15 {
	case 0, 1:
		at = text(b, at, ".org")
	case 2, 3:
		at = text(b, at, ".de")
	case 4:
		at = text(b, at, ".co.uk")
	case 5:
		at = text(b, at, ".net")
	default:
		at = text(b, at, ".com")
	}
	b[at] = '/'
	h.length = at + 1
}

// slug appends three to five words, usually four, joined by dashes.
func (s *Stream) slug(b []byte, at int, r uint64) int {
	n := 3 + int(r&1+r>>1&1)
	r = mix(r)
	for i := range n {
		if i > 0 {
			b[at] = '-'
			at++
		}
		if i == 3 {
			r = mix(r)
		}
		at = put(b, at, s.skewed(r))
		r = r>>21 | r<<43
	}
	return at
}

// section appends one of a host's n sections.
func (s *Stream) section(b []byte, at int, h *host, which, n uint64) int {
	i := (h.hash>>16 + which%n*577) & (dictionarySize - 1)
	return put(b, at, &s.words[i])
}

const digits = "0123456789abcdef"

// hex appends n hexadecimal digits of r.
func hex(b []byte, at int, r uint64, n int) int {
	for range n {
		b[at] = digits[r&15]
		r >>= 4
		at++
	}
	return at
}

// decimal appends v in decimal digits.
func decimal(b []byte, at int, v uint64) int {
	n := 1
	for x := v; x >= 10; x /= 10 {
		n++
	}
	for i := at + n - 1; i >= at; i-- {
		b[i] = '0' + byte(v%10)
		v /= 10
	}
	return at + n
}

// appendText writes the text of a URL to b[at:] and returns its end. Every path contains the URL's rank in
// its host, between characters that are not digits, so texts are unique.
func (s *Stream) appendText(b []byte, at int, id uint64) int {
	group := id >> sessionBits
	h := s.host(group)
	rank := group/s.classes>>(group%s.classes)<<sessionBits | id&(session-1)
	*(*[96]byte)(b[at:]) = h.prefix
	return s.path(b, at+h.length, h, rank)
}

// path appends the part after the name of the host.
func (s *Stream) path(b []byte, at int, h *host, rank uint64) int {
	r, visit := mix(rank+h.hash), mix(rank>>sessionBits^h.hash) // per URL; per session
	switch h.template {
	case 0, 2, 3, 4:
		return s.textPath(b, at, h, rank, r, visit)
	}
	return s.listPath(b, at, h, rank, r, visit)
}

// textPath appends the path of a host with texts.
func (s *Stream) textPath(b []byte, at int, h *host, rank, r, visit uint64) int {
	switch h.template {
	case 0: // news: a date and a slug
		at = s.section(b, at, h, r, 8)
		at = text(b, at, "/20")
		at = decimal(b, at, 10+rank>>9%10)
		at = text(b, at, "/")
		at = decimal(b, at, 10+rank>>6%20)
		at = text(b, at, "/")
		at = s.slug(b, at, r>>8)
		at = text(b, at, "-")
		at = decimal(b, at, rank)
		return text(b, at, ".html?full=1")
	case 2: // forum with session ids
		at = text(b, at, "forum/viewtopic.")
		at = text(b, at, "php?f=")
		at = decimal(b, at, r&31)
		at = text(b, at, "&t=")
		at = decimal(b, at, rank)
		at = text(b, at, "&start=")
		at = decimal(b, at, r>>5&7*15)
		at = text(b, at, "&view=")
		at = s.section(b, at, h, r>>8, 4)
		at = text(b, at, "&sid=")
		return hex(b, at, visit, 16)
	case 3: // content management
		at = text(b, at, "index.php?option")
		at = text(b, at, "=com_content&")
		at = text(b, at, "view=article&id=")
		at = decimal(b, at, rank)
		at = text(b, at, ":")
		at = s.slug(b, at, r>>8)
		at = text(b, at, "&catid=")
		at = decimal(b, at, r&127)
		at = text(b, at, "&Itemid=")
		return decimal(b, at, 100+r>>7&63)
	default: // wiki
		at = text(b, at, "wiki/")
		at = s.slug(b, at, r>>8&^0x3c)
		at = text(b, at, "_(")
		at = decimal(b, at, rank)
		at = text(b, at, ")?action=history")
		at = text(b, at, "&useskin=vector&")
		at = text(b, at, "offset=20240")
		return decimal(b, at, 100000+r>>30&0xffff)
	}
}

// listPath appends the path of a host with products, pictures or lists.
func (s *Stream) listPath(b []byte, at int, h *host, rank, r, visit uint64) int {
	switch h.template {
	case 1: // shop
		at = text(b, at, "product/")
		at = s.section(b, at, h, r, 16)
		at = text(b, at, "/")
		at = s.slug(b, at, r>>8)
		at = text(b, at, "-p")
		at = decimal(b, at, rank)
		at = text(b, at, "?ref=")
		at = s.section(b, at, h, r>>4, 5)
		at = text(b, at, "&variant=")
		at = hex(b, at, r>>16, 4)
		at = text(b, at, "&utm_campaign=")
		return s.section(b, at, h, r>>6, 2)
	case 5: // albums
		at = text(b, at, "users/")
		at = put(b, at, s.skewed(r))
		at = put(b, at, s.skewed(r>>22))
		at = text(b, at, "/albums/")
		at = s.section(b, at, h, r>>44, 12)
		at = text(b, at, "/img_")
		at = decimal(b, at, rank)
		at = text(b, at, "_")
		at = hex(b, at, mix(r), 6)
		at = text(b, at, "_large.jpg")
		return text(b, at, "?size=1280x1024")
	case 6: // directories
		at = s.section(b, at, h, r, 6)
		at = text(b, at, "/")
		at = s.section(b, at, h, r>>3, 11)
		at = text(b, at, "/")
		at = s.slug(b, at, r>>8)
		at = text(b, at, "/")
		at = s.section(b, at, h, r>>40, 30)
		at = text(b, at, "/entry")
		at = decimal(b, at, rank)
		return text(b, at, "/index.html")
	default: // search and lists
		at = s.section(b, at, h, r, 9)
		at = text(b, at, "/list?category=")
		at = s.section(b, at, h, r>>4, 23)
		at = text(b, at, "&sort=price")
		at = text(b, at, "&page=")
		at = decimal(b, at, rank)
		at = text(b, at, "&q=")
		at = put(b, at, s.skewed(r>>9))
		at = text(b, at, "+")
		at = put(b, at, s.skewed(r>>31))
		at = text(b, at, "&per_page=24")
		at = text(b, at, "&token=")
		return hex(b, at, visit, 12)
	}
}
