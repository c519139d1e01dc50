package maintext

import (
	"maps"
	"strings"

	"golang.org/x/net/html/atom"
)

// marks is a set of hints that the name, the role, the id and the class of an element give.
type marks uint32

// The hints: elements that rarely have main text, and those that often have it.
const (
	markNav marks = 1 << iota
	markFooter
	markSide
	markCookie
	markShare
	markRelated
	markComment
	markReview
	markForm
	markAction // buttons, also those of shops
	markPopup
	markUnseen // display: none
	markMain
	markArticle
	markForum
	markCard
	markFigure
	markContents // a table of contents
	numMarks     = iota
)

// wideMarks are the hints that count on an element with most of the page: others name a layout there, as in
// <div class="page with-sidebar">.
const wideMarks = markMain | markArticle

// elementMarks are the hints of elements' names.
var elementMarks = map[atom.Atom]marks{
	atom.Nav: markNav, atom.Menu: markNav, atom.Footer: markFooter, atom.Aside: markSide, atom.Dialog: markPopup,
	atom.Button: markAction, atom.Form: markForm, atom.Select: markForm, atom.Textarea: markForm,
	atom.Datalist: markForm, atom.Main: markMain, atom.Article: markArticle, atom.Figure: markFigure,
	atom.Figcaption: markFigure,
}

// roleMarks are the hints of roles of WAI-ARIA.
var roleMarks = map[string]marks{
	"navigation": markNav, "menu": markNav, "menubar": markNav, "tablist": markNav, "contentinfo": markFooter,
	"complementary": markSide, "dialog": markPopup, "alertdialog": markPopup, "search": markForm, "form": markForm,
	"main": markMain, "article": markArticle, "button": markAction, "doc-toc": markContents,
}

// hintWords are the hints of words in an id or a class.
var hintWords = tableOf(map[marks]string{
	markNav: "nav navbar navigation menu submenu megamenu breadcrumb breadcrumbs crumbs pagination pager paging " +
		"tabs toolbar topnav subnav mainmenu dropdown sitemap",
	markFooter: "footer foot copyright colophon legal disclaimer bottom",
	markSide:   "sidebar aside widget widgets rail side right secondary sidecolumn",
	markCookie: "cookie cookies consent gdpr onetrust cookiebanner privacy",
	markShare:  "share sharing social socials follow twitter facebook linkedin addthis",
	markRelated: "related recommended recommendations recommendation recommend more suggested similar popular " +
		"trending upsell upsells crosssell carousel slider latest recent next previous prev readmore teaser teasers " +
		"also viewed",
	markComment: "comment comments respond disqus commentlist reply replies",
	markReview:  "review reviews rating ratings stars testimonial testimonials",
	markAction:  "button buttons btn cta cart checkout wishlist actions controls add",
	markPopup: "modal popup overlay dialog lightbox drawer toast alert notice notification flyout offcanvas tooltip " +
		"popover warning error",
	markForum: "thread topic topics message messages question answer answers discussion forum forums posts postbody",
	markCard:  "card cards grid list tile tiles listing items row col",
	markFigure: "caption image gallery media figure thumbnail credit " +
		"video",
	markContents: "toc contents tableofcontents jump anchor",
})

// tableOf makes a table of the words of each hint.
func tableOf(of map[marks]string) map[string]marks {
	table := map[string]marks{}
	for m, list := range maps.All(of) {
		for word := range strings.FieldsSeq(list) {
			table[word] |= m
		}
	}
	return table
}

// maxNames bounds how much of an id, a class, a role or a style is read, in bytes.
const maxNames = 512

// nameMarks returns the hints of an id or a class. Its words are runs of letters, and one begins where an upper-case
// letter follows a lower-case one.
func (t *tree) nameMarks(value []byte) (m marks) {
	word, lower := t.word[:0], false
	take := func() {
		if len(word) > 1 {
			m |= hintWords[string(word)]
		}
		word = word[:0]
	}
	for _, c := range value {
		switch {
		case c >= 'a' && c <= 'z':
			word, lower = append(word, c), true
			continue
		case c < 'A' || c > 'Z':
			take()
		case lower:
			take()
			word = append(word, c|0x20)
		default:
			word = append(word, c|0x20)
		}
		lower = false
	}
	take()
	t.word = word[:0]
	return m
}
