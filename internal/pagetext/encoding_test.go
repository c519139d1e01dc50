package pagetext

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/text/encoding/htmlindex"
)

// guessable are texts with the encodings in which pages that name none are recognized.
var guessable = []struct{ text, encodings string }{
	{"図書館は毎週月曜日に休みます。駅から歩いて十分ほどの静かな場所にあり、新しい雑誌や新聞もそろっています。", "shift_jis euc-jp iso-2022-jp"},
	{"ホームページへようこそ。このサイトはリンクフリーです。おといあわせはメールでどうぞ。", "shift_jis euc-jp"},
	{"Городская библиотека открыта каждый день, кроме понедельника. Читатели могут взять домой пять " +
		"книг на две недели.",
		"windows-1251 koi8-r iso-8859-5"},
	{"Добро пожаловать на наш сайт! Новости компании, каталог товаров и контакты.", "windows-1251 koi8-r"},
	{"Градската библиотека е отворена всеки ден без понеделник. Читателите могат да вземат пет книги за две седмици.",
		"windows-1251"},
	{"市图书馆除星期一外每天开放。读者一次可以借五本书，期限为两周。我们欢迎孩子和大人来这里看书、看报。", "gb18030"},
	{"欢迎访问我们的网站，联系我们，公司新闻，产品介绍。", "gb18030"},
	{"市立圖書館除星期一外每天開放。讀者一次可以借五本書，期限為兩週。我們歡迎孩子和大人來這裡看書、看報。", "big5"},
	{"시립 도서관은 월요일을 제외하고 매일 문을 엽니다. 한 번에 다섯 권까지 두 주 동안 빌릴 수 있습니다.", "euc-kr"},
	{"Městská knihovna je otevřena každý den kromě pondělí. Čtenáři si mohou půjčit nejvýše pět knih na dva týdny.",
		"iso-8859-2 windows-1250"},
	{"Biblioteka miejska jest czynna codziennie oprócz poniedziałku. Czytelnicy mogą wypożyczyć najwyżej pięć książek.",
		"iso-8859-2 windows-1250"},
	{"A városi könyvtár hétfő kivételével minden nap nyitva tart. Az olvasók legfeljebb öt könyvet vihetnek haza.",
		"iso-8859-2 windows-1250"},
	{"Η δημοτική βιβλιοθήκη είναι ανοιχτή κάθε μέρα εκτός από τη Δευτέρα. Οι αναγνώστες δανείζονται πέντε βιβλία.",
		"iso-8859-7"},
	{"Şehir kütüphanesi pazartesi dışında her gün açıktır. Okurlar iki hafta için en çok beş kitap alabilir.",
		"windows-1254"},
	{"הספרייה העירונית פתוחה בכל יום חוץ מיום שני. הקוראים יכולים לשאול עד חמישה ספרים לשבועיים.", "windows-1255"},
	{"المكتبة البلدية مفتوحة كل يوم ما عدا يوم الاثنين. يستطيع القراء استعارة خمسة كتب لمدة أسبوعين.", "windows-1256"},
	{"Die Stadtbücherei ist täglich außer montags geöffnet. Leser dürfen höchstens fünf Bücher ausleihen.",
		"windows-1252"},
	{"La bibliothèque municipale est ouverte tous les jours sauf le lundi. Les lecteurs empruntent " +
		"jusqu’à cinq livres.",
		"windows-1252"},
	{"La biblioteca municipal está abierta todos los días salvo el lunes. ¡Niños y adultos son bienvenidos!",
		"windows-1252"},
	{"The city library is open every day except Monday – “quiet please” – © 2004 Café Library. It’s free.",
		"windows-1252"},
	{"Über uns: Bücher für alle.", "windows-1252"},
	{"Société française de café", "windows-1252"},
}

// TestGuessedEncodings: the text of a page that names no encoding is readable, and marked.
func TestGuessedEncodings(t *testing.T) {
	for _, tt := range guessable {
		for name := range strings.FieldsSeq(tt.encodings + " utf-8") {
			enc, err := htmlindex.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			body, err := enc.NewEncoder().String(
				"<html><title>x</title><script>var s = 1</script><div><a href=/>Home</a> " +
					"<a href=/news>News</a></div><p class=main>" + tt.text + "</p>")
			if err != nil {
				t.Fatalf("%.30q in %s: %v", tt.text, name, err)
			}
			var text strings.Builder
			e, err := Walk(strings.NewReader(body), "text/html", func(t *Token) error {
				if t.Hidden == 0 {
					text.Write(t.Text)
				}
				return nil
			})
			if err != nil || !e.Guessed || !strings.Contains(text.String(), tt.text) {
				t.Errorf("%s: got %+v, %v, %.60q; want it guessed, and %.60q", name, e, err, text.String(), tt.text)
			}
			e, err = Walk(strings.NewReader(body), "text/html, text/html; charset="+name,
				func(*Token) error { return nil })
			if want, _ := htmlindex.Name(enc); err != nil || e.Name != want || e.Guessed {
				t.Errorf("%s in the header: got %+v, %v", name, e, err)
			}
		}
	}
}

// TestNothingToGuess: a page whose text is the same in all encodings is not marked, and no guess overrules a name.
func TestNothingToGuess(t *testing.T) {
	russian, err := htmlindex.Get("windows-1251")
	if err != nil {
		t.Fatal(err)
	}
	text, err := russian.NewEncoder().String(guessable[2].text)
	if err != nil {
		t.Fatal(err)
	}
	for page, want := range map[string]Encoding{
		"":                             {Name: "windows-1252"},
		"<p>plain &eacute;":            {Name: "windows-1252"},
		"<!-- \xe9 --><p>plain":        {Name: "windows-1252"},
		"<meta charset=koi8-r>" + text: {Name: "koi8-r"},
		"<!--" + strings.Repeat("x", 2000) + "--><meta charset=koi8-r>" + text: {Name: "koi8-r"},
		"<?xml encoding='koi8-r'?>" + text:                                     {Name: "koi8-r"},
		"<\x00h\x00t\x00m\x00l\x00>\x00":                                       {Name: "utf-16le"},
		"\xEF\xBB\xBFabc":                                                      {Name: "utf-8"},
		"<p>\xff\xfe\xfd":                                                      {Name: "windows-1252", Guessed: true},
	} {
		got, err := Walk(strings.NewReader(page), "text/html", func(t *Token) error {
			if strings.Contains(string(t.Text), "\uFEFF") {
				return errors.New("a byte order mark in the text")
			}
			return nil
		})
		if err == nil && got.Name == "utf-16le" {
			got.Guessed = false // by the first bytes
		}
		if err != nil || got != want {
			t.Errorf("%.60q: got %+v, %v; want %+v", page, got, err, want)
		}
	}
}

// TestReaderKeepsErrors: the text before an error is read, and then the error.
func TestReaderKeepsErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, begin := range []string{"", "a", "\xEF\xBB\xBF", "\xEF\xBB\xBFabc", "<p>ol\xe9 ol\xe9",
		strings.Repeat("x", 100_000)} {
		r, _ := NewReader(io.MultiReader(strings.NewReader(begin), iotest.ErrReader(broken)), "text/html")
		got, err := io.ReadAll(iotest.OneByteReader(r))
		if want := strings.ReplaceAll(strings.TrimPrefix(begin, "\xEF\xBB\xBF"), "\xe9", "é"); err != broken ||
			string(got) != want {
			t.Errorf("%.20q: got %.20q, %v", begin, got, err)
		}
	}
}

// BenchmarkGuess is the cost of a page of 64 KiB that names no encoding.
func BenchmarkGuess(b *testing.B) {
	for _, tt := range guessable {
		name, _, _ := strings.Cut(tt.encodings, " ")
		enc, err := htmlindex.Get(name)
		if err != nil {
			b.Fatal(err)
		}
		page, err := enc.NewEncoder().String(strings.Repeat("<p class=main>"+tt.text+"</p>\n", 600))
		if err != nil {
			b.Fatal(err)
		}
		begin := []byte(page[:min(len(page), 64<<10)])
		b.Run("encoding="+name, func(b *testing.B) {
			b.SetBytes(int64(len(begin)))
			for b.Loop() {
				guess(begin, "windows-1252")
			}
		})
	}
}
