package langid

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLanguage: languages of all kinds of scripts, mixed texts, and texts too short to tell.
func TestLanguage(t *testing.T) {
	for _, c := range []struct{ want, text string }{
		{"eng", "The committee met on Tuesday to discuss the new harbour " +
			"wall, which the storm had damaged in the spring."},
		{"deu", "Der Ausschuss traf sich am Dienstag, um über die neue Hafenmauer " +
			"zu sprechen, die der Sturm beschädigt hatte."},
		{"fra", "Le comité s'est réuni mardi pour discuter du nouveau mur " +
			"du port, que la tempête avait endommagé au printemps."},
		{"spa", "El comité se reunió el martes para hablar del nuevo muro " +
			"del puerto, que la tormenta había dañado en primavera."},
		{"rus", "Комитет собрался во вторник, чтобы обсудить новую " +
			"портовую стену, которую шторм повредил весной."},
		{"ara", "اجتمعت اللجنة يوم الثلاثاء لمناقشة جدار الميناء " +
			"الجديد الذي ألحقت به العاصفة أضرارا في الربيع."},
		{"hin", "समिति की बैठक मंगलवार को बंदरगाह की नई दीवार पर चर्चा करने के लिए हुई।"},
		{"tha", "คณะกรรมการประชุมเมื่อวันอังคารเพื่อหารือเกี่ยวกับกำแพงท่าเรือใหม่"},
		{"ell", "Η επιτροπή συνεδρίασε την Τρίτη για το νέο τείχος του λιμανιού."},
		{"jpn", "委員会は火曜日に、春の嵐で損傷した新しい港の壁について話し合うために集まった。"},
		{"jpn", "東京都知事選挙管理委員会発表資料（平成二十八年度）の一覧"},
		{"zho", "委员会星期二开会讨论新的港口围墙。"},
		{"zho", "委员会 (Harbour Wall Committee, Easthaven) 星期二开会讨论新的港口围墙，春天的风暴损坏了它。"},
		{"kor", "위원회는 화요일에 모여 봄 폭풍으로 손상된 새 항구 벽에 대해 논의했다."},
		{"ceb", "Ang mga bata nagdula sa baybayon ug nangita og mga kinhason " +
			"samtang ang ilang ginikanan nagluto sa pagkaon."},
		{"tgl", "Nagpulong ang komite noong Martes upang pag-usapan " +
			"ang bagong pader ng daungan na sinira ng bagyo."},
		{"nya", "Komiti inakumana Lachiwiri kukambirana za khoma latsopano " +
			"la doko lomwe linawonongeka ndi mphepo."},
		{"yid", "דער קאָמיטעט האָט זיך געטראָפֿן דינסטיק צו רעדן וועגן " +
			"דער נייער וואַנט, וואָס דער שטורעם האָט באַשעדיקט."},
		{"heb", "הוועדה נפגשה ביום שלישי כדי לדון בחומה החדשה של הנמל שנפגעה בסערה באביב."},
		{"lug", "Akakiiko kaatudde ku Lwakubiri okuteesa ku kisenge ekipya eky'omwalo ekyayonoonebwa omuyaga."},
		{"swa", "Kamati ilikutana Jumanne kujadili ukuta mpya wa bandari " +
			"ambao dhoruba iliuharibu wakati wa masika."},
		{"cym", "Cyfarfu'r pwyllgor ddydd Mawrth i drafod wal newydd yr harbwr a ddifrodwyd gan y storm."},
		{"eus", "Batzordea asteartean bildu zen ekaitzak udaberrian " +
			"kaltetu zuen portuko horma berriaz hitz egiteko."},
		{"isl", "Nefndin hittist á þriðjudaginn til að ræða nýja hafnarvegginn sem stormurinn skemmdi í vor."},
		{"mlt", "Il-kumitat iltaqa' nhar it-Tlieta biex jiddiskuti l-ħajt " +
			"il-ġdid tal-port li l-maltempata għamlitlu ħsara."},
		{"eng", "THE COMMITTEE MET ON TUESDAY TO DISCUSS THE NEW HARBOUR WALL."},
		{NoLanguage, strings.Repeat("4711 0815 12,50 ", 20)},
		{NoLanguage, "a1b2c3d4e5f6 0x3f2a9981 b7c8d9e0f1a2 0xdeadbeef 77aa88bb99cc"},
		{"chr", strings.Repeat("\u13a0\u13b3\u13a9 ", 9)},
		{"div", strings.Repeat("\u078b\u07a8\u0788\u07ac ", 12)},
		{Undetermined, ""},
		{Undetermined, "Home"},
		{Undetermined, "Contact us"},
		{Undetermined, "12 34 56 99 EUR 17:30"},
		{Undetermined, "港口"},
		{NoLanguage, "xq zzt kkv wwq pfft grmbl brrt xq zzt"},
	} {
		if got, sure := Language([]byte(c.text)); got != c.want ||
			(got == Undetermined) != (sure < leastConfidence) || sure > 1 {
			t.Errorf("%q: %s %.2f, want %s", c.text, got, sure, c.want)
		}
	}
	long := []byte(strings.Repeat(
		"Die Hafenmauer wird im Mai wieder für alle geöffnet, sagt der Ausschuss über die Größe. ", 4000))
	for cut := range 8 { // pieces begin within characters
		if got, _ := Language(long[cut : len(long)-cut]); got != "deu" || !utf8.Valid(sampleOf(long[cut+1:])) {
			t.Errorf("a long text: %s", got)
		}
	}
}

// TestModel: the classifier agrees with py3langid 0.4.0, whose probabilities these are.
func TestModel(t *testing.T) {
	for text, want := range map[string]struct {
		code string
		sure float64
	}{
		"The committee met on Tuesday to discuss the new harbour wall.":               {"eng", 0.9922},
		"Il comitato si è riunito martedì.":                                           {"ita", 0.9607},
		"Výbor se sešel v úterý, aby jednal o nové zdi.":                              {"ces", 0.9723},
		"Комітет зібрався у вівторок":                                                 {"ukr", 0.9894},
		"0x3f2a 9981 2211 00 11":                                                      {"zxx", 0.5692},
		"DER AUSSCHUSS TRAF SICH":                                                     {"deu", 0.6690},
		"Cafe\u0301 au lait et cre\u0300me":                                           {"fra", 0.9001},
		"委员会星期二开会":                                                                    {"zho", 0.5552},
		"a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a": {"ron", 0.0872},
	} {
		code, sure := get().classify([]byte(text))
		if code != want.code || math.Abs(sure-want.sure) > 0.01 {
			t.Errorf("%q: %s %.4f, want %s %.4f", text, code, sure, want.code, want.sure)
		}
	}
	for _, file := range [][]byte{nil, []byte("x"), modelFile[:len(modelFile)/2], slices.Concat(modelFile[:1000],
		[]byte("x"), modelFile[1001:])} {
		if _, err := load(file); err == nil {
			t.Errorf("a damaged model of %d bytes is loaded", len(file))
		}
	}
}

// FuzzLanguage: every text has an answer.
func FuzzLanguage(f *testing.F) {
	f.Add([]byte("\xff\xfe many words and some more of them, says E\u0301mile \u0301"))
	f.Add(bytes.Repeat([]byte("AAAA"), 600))
	f.Fuzz(func(t *testing.T, text []byte) {
		code, sure := Language(text)
		again, _ := Language(bytes.Clone(text))
		if len(code) != 3 || sure < 0 || sure > 1 || code != again {
			t.Errorf("%s %f, then %s", code, sure, again)
		}
	})
}

// BenchmarkLanguage: texts longer than it reads, of a language that the model knows, and of one that takes whatlanggo.
func BenchmarkLanguage(b *testing.B) {
	for name, text := range map[string]string{
		"deu": "Die Hafenmauer wird im Mai wieder für alle geöffnet, sagt der Ausschuss, der im Frühjahr über " +
			"Größe und Preis beraten hat; ein Sturm hatte sie beschädigt. Niemand weiß, warum es so lange dauert. ",
		"hin": "समिति की बैठक मंगलवार को बंदरगाह की नई दीवार पर चर्चा करने के लिए हुई। ",
		"jpn": "委員会は火曜日に、春の嵐で損傷した新しい港の壁について話し合うために集まった。",
		"tgl": "Nagpulong ang komite noong Martes upang pag-usapan ang bagong pader ng daungan na sinira ng bagyo. ",
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(text, 20))
			b.ReportAllocs()
			for b.Loop() {
				Language(text)
			}
		})
	}
}
